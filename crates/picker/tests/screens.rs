//! The picker, as it looks.

mod common;

use common::{Desk, NOW, found};
use insta::assert_snapshot;
use ratatui::crossterm::event::KeyCode;
use ratatui::style::{Color, Modifier};
use rethread::MessagePlace;
use rethread_picker::PickerLook;
use rethread_render::DisplayOptions;

#[test]
fn list_fits_80_columns() {
    assert_snapshot!(Desk::read(80, 24).screen());
}

#[test]
fn list_fits_60_columns() {
    assert_snapshot!(Desk::read(60, 16).screen());
}

#[test]
fn wide_terminal_shows_the_preview_beside_the_list() {
    let mut desk = Desk::read(140, 40);
    desk.press(KeyCode::Down);
    desk.press(KeyCode::Down);
    desk.read_preview();
    assert_snapshot!(desk.screen());
}

#[test]
fn narrow_terminal_shows_the_preview_instead_of_the_list() {
    let mut desk = Desk::read(60, 16);
    desk.press(KeyCode::Right);
    desk.read_preview();
    assert_snapshot!(desk.screen());
}

#[test]
fn unread_sessions_show_their_ids() {
    assert_snapshot!(Desk::unread(80, 16).screen());
}

#[test]
fn query_filters_the_list() {
    let mut desk = Desk::read(80, 12);
    desk.type_text("chkpt");
    assert_snapshot!(desk.screen());
    desk.type_text("zzz");
    desk.find([]);
    assert_snapshot!(desk.screen());
}

/// Types a query and answers its search.
fn find_checkpoint(desk: &mut Desk) {
    let long = "I looked at everything that the driver does in a second, and it seems that the «checkpoint» is not \
                written before the reset";
    desk.type_text("checkpoint");
    desk.find([
        found(0, 41, MessagePlace::Active, "is the «checkpoint» written before the reset?"),
        found(2, 12, MessagePlace::Abandoned, long),
        found(
            3,
            7,
            MessagePlace::Compacted,
            "修正登录流程的错误 «checkpoint» 修正登录流程的错误并且添加测试用例",
        ),
        found(
            5,
            100,
            MessagePlace::Subagent,
            "evil \u{1b}[2J\u{1b}]0;pwned\u{7} \u{202e}txt «checkpoint»\n\tx",
        ),
        found(7, 3, MessagePlace::Active, "the «checkpoint»"),
    ]);
}

#[test]
fn hits_in_contents_have_a_line_of_their_own() {
    let mut desk = Desk::read(80, 24);
    find_checkpoint(&mut desk);
    desk.press(KeyCode::Down);
    assert_snapshot!(desk.screen());
}

#[test]
fn hits_fit_40_columns() {
    let mut desk = Desk::read(40, 16);
    find_checkpoint(&mut desk);
    assert_snapshot!(desk.screen());
}

#[test]
fn preview_opens_at_the_hit() {
    let mut desk = Desk::read(120, 20);
    desk.type_text("driver");
    desk.find([found(2, 1, MessagePlace::Active, "Then «go on» from here")]);
    desk.read_preview();
    assert_snapshot!(desk.screen());
}

#[test]
fn running_search_is_announced() {
    let mut desk = Desk::read(80, 12);
    desk.type_text("mutex");
    desk.state.wanted_search();
    desk.state.set_indexing(Some(43));
    desk.draw();
    assert!(desk.screen().contains("searching the messages…"), "{}", desk.screen());
    assert!(desk.screen().contains("indexing 43 %"), "{}", desk.screen());
    desk.state.set_search_results("mutex", []);
    desk.state.set_indexing(None);
    desk.draw();
    assert!(desk.screen().contains("No session matches."), "{}", desk.screen());
    assert!(!desk.screen().contains("indexing"), "{}", desk.screen());
}

#[test]
fn ascii_terminal_gets_only_ascii() {
    let look = PickerLook { ascii: true, ..PickerLook::plain(NOW.parse().expect("a time")) };
    let mut desk = Desk::with_look(110, 24, look);
    desk.read_all();
    desk.press(KeyCode::Down);
    desk.press(KeyCode::Down);
    desk.read_preview();
    assert!(desk.screen().is_ascii());
    assert_snapshot!(desk.screen());
}

#[test]
fn keys_are_listed() {
    let mut desk = Desk::read(80, 24);
    desk.press(KeyCode::F(1));
    assert_snapshot!(desk.screen());
}

#[test]
fn clone_lists_the_paths_of_the_session() {
    let mut desk = Desk::read(80, 16);
    desk.press(KeyCode::Down);
    desk.press(KeyCode::Down);
    desk.control('f');
    desk.read_preview();
    assert_snapshot!(desk.screen());
}

#[test]
fn tiny_terminal_says_that_it_is_too_small() {
    assert!(Desk::read(20, 5).screen().starts_with("too small"));
}

#[test]
fn colours_are_used_only_if_allowed() {
    let colours = |color: bool| {
        let plain = DisplayOptions::plain(NOW.parse().expect("a time"));
        let look = PickerLook { display: DisplayOptions { color, escape: true, ..plain }, ascii: false };
        let mut desk = Desk::with_look(140, 30, look);
        desk.read_all();
        desk.type_text("fix");
        desk.read_preview();
        let cells = desk.terminal.backend().buffer().content.clone();
        assert!(cells.iter().all(|cell| cell.bg == Color::Reset), "backgrounds belong to the terminal");
        assert!(cells.iter().any(|cell| cell.modifier.contains(Modifier::UNDERLINED)), "matches are marked");
        cells.iter().any(|cell| cell.fg != Color::Reset)
    };
    assert!(colours(true));
    assert!(!colours(false));
}
