//! The picker, as it looks.

mod common;

use common::{Desk, NOW};
use insta::assert_snapshot;
use ratatui::crossterm::event::KeyCode;
use ratatui::style::{Color, Modifier};
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
    assert_snapshot!(desk.screen());
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
