//! The reaction of the picker to keys, the mouse and loaded sessions.

mod common;

use std::time::{Duration, Instant};

use common::{Desk, SAMPLE, summary};
use proptest::prelude::*;
use ratatui::crossterm::event::{
    Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
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
    Wait,
}

fn any_step() -> impl Strategy<Value = RandomStep> {
    prop_oneof![
        6 => any_event().prop_map(RandomStep::Terminal),
        1 => (1u16..220, 1u16..60).prop_map(|(width, height)| RandomStep::Resize(width, height)),
        2 => (0..SAMPLE.len() + 2, any::<bool>()).prop_map(|(at, listed)| RandomStep::Read(at, listed)),
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
