//! The reaction of the picker to keys, the mouse and loaded sessions.

mod common;

use std::time::{Duration, Instant};

use common::{Desk, SAMPLE, found, summary};
use proptest::prelude::*;
use ratatui::crossterm::event::{
    Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use rethread::MessagePlace;
use rethread_picker::{PickerAction, PickerItem, PickerLook, PickerScope, PickerState};

fn mouse(kind: MouseEventKind, column: u16, row: u16) -> Event {
    Event::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE })
}

#[test]
fn enter_resumes_the_selected_session() {
    let mut desk = Desk::read(80, 24);
    desk.press(KeyCode::Down);
    assert_eq!(desk.press(KeyCode::Enter), Some(PickerAction::Resume(1)));
    assert_eq!(desk.control('r'), Some(PickerAction::Resume(1)));
}

#[test]
fn keys_start_the_actions_of_the_selected_session() {
    let mut desk = Desk::read(80, 24);
    desk.press(KeyCode::End);
    let last = SAMPLE.len() - 1;
    assert_eq!(desk.control('s'), Some(PickerAction::Show(last, None)));
    assert_eq!(desk.control('t'), Some(PickerAction::Tree(last)));
    assert_eq!(desk.control('e'), Some(PickerAction::Export(last)));
    assert_eq!(desk.control('k'), Some(PickerAction::Check(last)));
    assert_eq!(desk.control('y'), Some(PickerAction::CopyId(last)));
    assert_eq!(desk.control('o'), Some(PickerAction::PrintId(last)));
    assert_eq!(desk.control('c'), Some(PickerAction::Quit));
    assert_eq!(desk.press(KeyCode::Tab), Some(PickerAction::SwitchScope));
}

#[test]
fn clone_takes_the_chosen_path() {
    let mut desk = Desk::read(80, 24);
    desk.press(KeyCode::Down);
    desk.press(KeyCode::Down);
    desk.control('f');
    assert_eq!(desk.press(KeyCode::Enter), None, "the paths are not known yet");
    desk.read_preview();
    desk.press(KeyCode::Char('1'));
    assert_eq!(desk.control('s'), Some(PickerAction::Show(2, Some(1))));
    desk.press(KeyCode::Down);
    desk.press(KeyCode::Down);
    assert_eq!(desk.press(KeyCode::Enter), Some(PickerAction::ClonePath(2, 2)));
    assert_eq!(desk.press(KeyCode::Enter), Some(PickerAction::Resume(2)), "back in the list");
}

#[test]
fn q_quits_only_while_the_query_is_empty() {
    let mut desk = Desk::read(80, 24);
    desk.type_text(" q");
    assert!(desk.screen().lines().nth(2).is_some_and(|line| line.contains("Query planner")));
    desk.control('u');
    assert_eq!(desk.press(KeyCode::Char('q')), Some(PickerAction::Quit));
}

#[test]
fn escape_goes_back_then_clears_then_quits() {
    let mut desk = Desk::read(80, 24);
    desk.type_text("fix");
    desk.press(KeyCode::F(1));
    assert!(desk.screen().contains("Keys"));
    assert_eq!(desk.press(KeyCode::Esc), None);
    assert!(desk.screen().contains("› fix"));
    assert_eq!(desk.press(KeyCode::Esc), None);
    assert!(desk.screen().contains("type to filter"));
    assert_eq!(desk.press(KeyCode::Esc), Some(PickerAction::Quit));
}

#[test]
fn id_prefix_finds_a_session() {
    let mut desk = Desk::read(80, 24);
    let id = desk.state.items()[5].id.clone();
    desk.type_text(&id[..8]);
    assert_eq!(desk.press(KeyCode::Enter), Some(PickerAction::Resume(5)));
}

#[test]
fn scattered_letters_are_no_match() {
    let mut desk = Desk::read(80, 24);
    for (query, is_match) in
        [("relnot", true), ("rnsr", true), ("sprng", true), ("eogr", false), ("essg", false)]
    {
        desk.type_text(query);
        assert_eq!(desk.screen().contains("Release notes"), is_match, "{query}");
        desk.control('u');
    }
}

#[test]
fn skipped_logs_leave_the_list_and_are_counted() {
    let mut desk = Desk::unread(80, 24);
    desk.state.add_summaries([(0, Ok(None)), (1, Ok(Some(summary(1)))), (2, Err("unreadable"))]);
    desk.draw();
    assert!(desk.screen().contains("7 · all projects"), "{}", desk.screen());
    assert!(desk.screen().contains("5 to read"));
    desk.state.add_summaries((3..SAMPLE.len()).map(|at| (at, Ok::<_, ()>(Some(summary(at))))));
    desk.draw();
    assert!(desk.screen().contains("1 hidden"));
    assert_eq!(desk.press(KeyCode::Enter), Some(PickerAction::Resume(1)));
}

#[test]
fn selection_stays_on_its_session_while_others_are_read() {
    let mut desk = Desk::unread(80, 24);
    for _ in 0..3 {
        desk.press(KeyCode::Down);
    }
    desk.state.add_summaries([(0, Ok::<_, ()>(None)), (1, Ok(None))]);
    desk.draw();
    assert_eq!(desk.press(KeyCode::Enter), Some(PickerAction::Resume(3)));
}

#[test]
fn query_applies_to_sessions_that_are_read_later() {
    let mut desk = Desk::unread(80, 24);
    desk.type_text("checkpoint");
    assert_eq!(desk.press(KeyCode::Enter), None, "no title is known");
    desk.read_all();
    assert_eq!(desk.press(KeyCode::Enter), Some(PickerAction::Resume(0)));
}

#[test]
fn replaced_list_keeps_query_and_selection() {
    let mut desk = Desk::read(80, 24);
    desk.type_text("e");
    desk.press(KeyCode::Down);
    let Some(PickerAction::Resume(before)) = desk.press(KeyCode::Enter) else { panic!("a session") };
    let mut items = desk.state.items().to_vec();
    items.reverse();
    desk.state.replace(PickerScope::Project("api".to_owned()), items);
    desk.draw();
    let after = SAMPLE.len() - 1 - before;
    assert_eq!(desk.press(KeyCode::Enter), Some(PickerAction::Resume(after)));
    assert!(desk.screen().contains("› e"));
}

#[test]
fn mouse_selects_scrolls_and_resumes() {
    let mut desk = Desk::read(80, 24);
    let click = mouse(MouseEventKind::Down(MouseButton::Left), 10, 4);
    assert_eq!(desk.state.handle(&click, desk.now), None);
    let soon = desk.now + Duration::from_millis(100);
    assert_eq!(desk.state.handle(&click, soon), Some(PickerAction::Resume(2)));
    let later = soon + Duration::from_secs(5);
    assert_eq!(desk.state.handle(&click, later), None, "one click");
    desk.state.handle(&mouse(MouseEventKind::ScrollDown, 10, 4), later);
    assert_eq!(desk.press(KeyCode::Enter), Some(PickerAction::Resume(5)));
}

#[test]
fn pasted_text_is_filtered_for() {
    let mut desk = Desk::read(80, 24);
    desk.state.handle(&Event::Paste("lost\ncheckpoint".to_owned()), desk.now);
    desk.draw();
    assert!(desk.screen().contains("1 of 8"), "{}", desk.screen());
}

#[test]
fn preview_is_not_requested_while_it_is_hidden() {
    let mut desk = Desk::read(80, 24);
    assert_eq!(desk.state.wanted_preview(desk.now + Duration::from_secs(9)), None);
}

/// Hits of a search in sessions, best first.
fn hits(sessions: &[usize]) -> Vec<rethread_picker::ContentMatch> {
    sessions.iter().map(|&at| found(at, 41, MessagePlace::Active, "Is the «checkpoint» written?")).collect()
}

#[test]
fn sessions_found_by_content_follow_those_found_by_title() {
    let mut desk = Desk::read(80, 24);
    desk.type_text("checkpoint");
    desk.find(hits(&[7, 0, 3, 7]));
    assert_eq!(desk.state.matching(), [0, 7, 3], "each session once, in the order of the search");
    assert!(desk.screen().contains("3 of 8"), "{}", desk.screen());
}

#[test]
fn results_of_an_earlier_query_are_dropped() {
    let mut desk = Desk::read(80, 24);
    desk.type_text("xyz");
    assert_eq!(desk.state.wanted_search().as_deref(), Some("xyz"));
    assert_eq!(desk.state.wanted_search(), None, "once");
    desk.type_text("w");
    desk.state.set_search_results("xyz", hits(&[7]));
    assert!(desk.state.matching().is_empty());
    desk.find(hits(&[7]));
    assert_eq!(desk.state.matching(), [7]);
}

#[test]
fn short_queries_are_not_searched() {
    let mut desk = Desk::read(80, 24);
    desk.type_text("ch");
    assert_eq!(desk.state.wanted_search(), None);
    desk.type_text("e");
    assert_eq!(desk.state.wanted_search().as_deref(), Some("che"));
    desk.press(KeyCode::Backspace);
    desk.state.set_search_results("che", hits(&[7]));
    assert!(!desk.state.matching().contains(&7) || desk.state.content_match(7).is_none());
}

#[test]
fn selection_stays_on_its_session_when_results_arrive() {
    let mut desk = Desk::read(80, 24);
    desk.type_text("rea");
    let before = desk.state.matching().to_vec();
    assert!(before.len() > 1, "{before:?}");
    desk.press(KeyCode::Down);
    desk.find(hits(&[7, before[0] as usize]));
    assert_eq!(desk.press(KeyCode::Enter), Some(PickerAction::Resume(before[1] as usize)));
}

#[test]
fn query_that_grows_keeps_hits_that_still_match() {
    let mut desk = Desk::read(80, 24);
    desk.type_text("checkp");
    let other = found(6, 3, MessagePlace::Active, "a «checkp» of another kind");
    desk.find(hits(&[7]).into_iter().chain([other]));
    desk.type_text("o");
    assert_eq!(desk.state.matching(), [0, 7], "before the results arrive");
    desk.control('u');
    assert!(desk.state.content_match(7).is_none());
}

#[test]
fn session_found_by_content_is_shown_at_the_hit() {
    let mut desk = Desk::read(80, 24);
    desk.type_text("checkpoint");
    desk.find(hits(&[7]));
    assert_eq!(desk.control('s'), Some(PickerAction::Show(0, None)), "found by its title only");
    desk.press(KeyCode::Down);
    assert_eq!(desk.control('s'), Some(PickerAction::ShowHit(7)));
    assert_eq!(desk.press(KeyCode::Enter), Some(PickerAction::Resume(7)));
}

#[test]
fn replaced_list_keeps_hits_and_searches_again() {
    let mut desk = Desk::read(80, 24);
    desk.type_text("checkpoint");
    desk.find(hits(&[7, 6]));
    let mut items = desk.state.items()[1..].to_vec();
    items.reverse();
    desk.state.replace(PickerScope::Project("api".to_owned()), items);
    assert_eq!(desk.state.matching(), [0, 1]);
    assert_eq!(desk.state.wanted_search().as_deref(), Some("checkpoint"));
}

#[test]
fn hit_in_a_title_has_no_line() {
    let mut desk = Desk::read(80, 24);
    desk.type_text("checkpoint");
    let mut title = hits(&[7]);
    title[0].hit.message = None;
    desk.find(title);
    assert_eq!(desk.state.matching(), [0, 7]);
    assert!(!desk.screen().contains("written"), "{}", desk.screen());
}

#[test]
fn mouse_selects_the_session_of_either_line() {
    let mut desk = Desk::read(80, 24);
    desk.type_text("checkpoint");
    desk.find(hits(&[0, 7, 3]));
    for (row, session) in [(2, 0), (3, 0), (4, 7), (5, 7), (6, 3), (7, 3)] {
        desk.state.handle(&mouse(MouseEventKind::Down(MouseButton::Left), 10, row), desk.now);
        desk.now += Duration::from_secs(5);
        assert_eq!(desk.press(KeyCode::Enter), Some(PickerAction::Resume(session)), "line {row}");
    }
}

#[test]
fn list_of_hits_scrolls_to_the_selection() {
    let mut desk = Desk::read(80, 8);
    desk.type_text("checkpoint");
    desk.find(hits(&[0, 1, 2, 3, 4, 5, 6, 7]));
    for at in [0, 1, 2, 3, 4, 5, 6, 7] {
        assert_eq!(desk.press(KeyCode::Enter), Some(PickerAction::Resume(at)));
        let screen = desk.screen();
        let lines: Vec<&str> = screen.lines().filter(|line| line.starts_with('▌')).collect();
        assert_eq!(lines.len(), 2, "both lines are visible:\n{screen}");
        desk.press(KeyCode::Down);
    }
    desk.press(KeyCode::PageUp);
    assert_eq!(desk.press(KeyCode::Enter), Some(PickerAction::Resume(5)), "two and a half sessions fit");
}

#[test]
fn changed_hit_requests_the_preview_again() {
    let mut desk = Desk::read(140, 40);
    desk.type_text("checkpoint");
    desk.read_preview();
    assert_eq!(desk.state.wanted_preview(desk.now), None);
    desk.find(hits(&[0]));
    assert!(desk.state.is_waiting());
    assert_eq!(desk.state.wanted_preview(desk.now).map(|(at, _)| at), Some(0));
    assert_eq!(desk.state.wanted_preview(desk.now), None, "once");
}

/// Any event that a terminal may send.
fn any_event() -> impl Strategy<Value = Event> {
    let code = prop_oneof![
        prop::char::any().prop_map(KeyCode::Char),
        prop::sample::select(vec!['q', 'f', 'e', ' ', '1', '登', 's']).prop_map(KeyCode::Char),
        prop::sample::select(vec![
            KeyCode::Enter,
            KeyCode::Esc,
            KeyCode::Up,
            KeyCode::Down,
            KeyCode::Left,
            KeyCode::Right,
            KeyCode::PageUp,
            KeyCode::PageDown,
            KeyCode::Home,
            KeyCode::End,
            KeyCode::Backspace,
            KeyCode::Delete,
            KeyCode::Tab,
            KeyCode::F(1),
        ]),
    ];
    let modifiers = prop::sample::select(vec![KeyModifiers::NONE, KeyModifiers::CONTROL, KeyModifiers::ALT]);
    let kind = prop::sample::select(vec![
        MouseEventKind::ScrollUp,
        MouseEventKind::ScrollDown,
        MouseEventKind::Down(MouseButton::Left),
    ]);
    prop_oneof![
        8 => (code, modifiers).prop_map(|(code, modifiers)| Event::Key(KeyEvent::new(code, modifiers))),
        1 => (kind, 0u16..200, 0u16..60).prop_map(|(kind, x, y)| mouse(kind, x, y)),
        1 => any::<String>().prop_map(Event::Paste),
    ]
}

/// A step of a random session with the picker.
#[derive(Debug, Clone)]
enum RandomStep {
    Terminal(Event),
    Resize(u16, u16),
    Read(usize, bool),
    Found(Vec<(usize, String, usize, usize)>),
    Wait,
}

fn any_step() -> impl Strategy<Value = RandomStep> {
    prop_oneof![
        6 => any_event().prop_map(RandomStep::Terminal),
        1 => (1u16..220, 1u16..60).prop_map(|(width, height)| RandomStep::Resize(width, height)),
        2 => (0..SAMPLE.len() + 2, any::<bool>()).prop_map(|(at, listed)| RandomStep::Read(at, listed)),
        2 => prop::collection::vec((0..SAMPLE.len() + 2, any::<String>(), 0usize..40, 0usize..40), 0..4)
            .prop_map(RandomStep::Found),
        1 => Just(RandomStep::Wait),
    ]
}

fn action_item(action: PickerAction) -> Option<usize> {
    use PickerAction as Action;
    match action {
        Action::Resume(at)
        | Action::Show(at, _)
        | Action::ShowHit(at)
        | Action::Tree(at)
        | Action::ClonePath(at, _) => Some(at),
        Action::Export(at) | Action::Check(at) | Action::CopyId(at) | Action::PrintId(at) => Some(at),
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// While a query grows, only earlier matches are compared again.
    #[test]
    fn typed_query_finds_what_a_pasted_one_finds(query in "[aefilnorst ]{1,6}") {
        let (mut typed, mut pasted) = (Desk::read(80, 24), Desk::read(80, 24));
        typed.type_text(&query);
        pasted.state.handle(&Event::Paste(query), pasted.now);
        pasted.draw();
        prop_assert_eq!(typed.screen(), pasted.screen());
    }

    #[test]
    fn any_input_keeps_the_selection_valid_and_the_screen_safe(
        size in (1u16..220, 1u16..60),
        steps in prop::collection::vec(any_step(), 0..60),
    ) {
        let mut desk = Desk::unread(size.0, size.1);
        for step in steps {
            match step {
                RandomStep::Terminal(event) => {
                    if let Some(at) = desk.state.handle(&event, desk.now).and_then(action_item) {
                        prop_assert!(!desk.state.items()[at].is_skipped());
                    }
                }
                RandomStep::Resize(width, height) => desk.terminal.backend_mut().resize(width, height),
                RandomStep::Read(at, listed) => {
                    let read = (listed && at < SAMPLE.len()).then(|| summary(at));
                    desk.state.add_summaries([(at, Ok::<_, ()>(read))]);
                }
                RandomStep::Found(hits) => {
                    let query = desk.state.wanted_search().unwrap_or_else(|| "none".to_owned());
                    let hits = hits.into_iter().map(|(at, text, start, end)| {
                        let mut found = found(at, 3, MessagePlace::Abandoned, "«x»");
                        let snippet = found.hit.snippet.as_mut().expect("a snippet");
                        (snippet.text, snippet.matches) = (text, std::iter::once(start..end).collect());
                        found
                    });
                    desk.state.set_search_results(&query, hits);
                }
                RandomStep::Wait => {
                    desk.now += Duration::from_secs(1);
                    desk.state.wanted_preview(desk.now);
                    desk.now += Duration::from_secs(1);
                    if let Some((at, _)) = desk.state.wanted_preview(desk.now) {
                        desk.state.add_preview(at, Ok(common::preview(at)));
                    }
                }
            }
            desk.draw();
            let shown = desk.screen();
            prop_assert_eq!(&*rethread_render::escape(&shown), &*shown);
        }
    }

    #[test]
    fn narrowing_a_query_finds_the_same_as_typing_it_at_once(
        titles in prop::collection::vec("[a-d é登]{0,12}", 1..30),
        query in "[a-d A]{0,6}",
    ) {
        let look = || PickerLook::plain(common::NOW.parse().expect("a time"));
        let item = |(at, title): (usize, &String)| PickerItem::new(&format!("{at:08x}"), title, None);
        let items: Vec<PickerItem> = titles.iter().enumerate().map(item).collect();
        let now = Instant::now();
        let mut typed = PickerState::new(look(), PickerScope::All, items.clone());
        for c in query.chars() {
            typed.handle(&Event::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE)), now);
        }
        let mut pasted = PickerState::new(look(), PickerScope::All, items);
        pasted.handle(&Event::Paste(query.clone()), now);
        prop_assert_eq!(typed.matching(), pasted.matching());
    }
}
