//! Keys against a chain that is computed from scratch, and the promises of what makes two keys differ.

use std::num::{NonZeroU32, NonZeroUsize};

use omniflow_prefix::{ChainError, KeyChain, KeyRoot, MediaItem, PageKey};
use proptest::prelude::*;

const PAGE: usize = 4;

fn root_of(model: &str, layout: &str, page_tokens: u32, salt: &str) -> KeyRoot {
    let page_tokens = NonZeroU32::new(page_tokens).unwrap();
    KeyRoot::new(model.as_bytes(), layout, page_tokens, salt.as_bytes())
}

fn empty() -> KeyChain {
    KeyChain::new(root_of("model", "layout", PAGE as u32, "tenant"))
}

fn media(digest: u8, length: usize) -> MediaItem {
    MediaItem {
        digest: [digest; 32],
        length: NonZeroUsize::new(length).unwrap(),
        placeholder: 9,
        basis: 0,
    }
}

fn keys<T>(build: impl FnOnce(&mut KeyChain) -> T) -> Vec<PageKey> {
    let mut chain = empty();
    build(&mut chain);
    chain.keys().to_vec()
}

#[derive(Clone, Debug)]
enum Part {
    Tokens(Vec<u32>),
    Media(u8, usize),
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let tokens = prop::collection::vec(0..3_u32, 0..9).prop_map(Part::Tokens);
    let item = (0..3_u8, 1..11_usize).prop_map(|(digest, length)| Part::Media(digest, length));
    prop::collection::vec(prop_oneof![3 => tokens, 1 => item], 0..10)
}

fn add(chain: &mut KeyChain, part: &Part) -> usize {
    match part {
        Part::Tokens(tokens) => chain.extend(tokens),
        Part::Media(digest, length) => chain.add_media(media(*digest, *length)),
    }
}

/// A token, and at a media position the item's digest, the offset in it and its length.
type Position = (u32, Option<(u8, usize, usize)>);

/// What a page's key may depend on, spelled out: all positions up to its end, and for each who fills it.
fn content(parts: &[Part]) -> Vec<Position> {
    let mut positions = Vec::new();
    for part in parts {
        match part {
            Part::Tokens(tokens) => positions.extend(tokens.iter().map(|&token| (token, None))),
            Part::Media(digest, length) => {
                positions.extend((0..*length).map(|offset| (9, Some((*digest, offset, *length)))));
            }
        }
    }
    positions
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn keys_are_equal_exactly_where_all_content_so_far_is(one in parts(), two in parts()) {
        let (mut left, mut right) = (empty(), empty());
        one.iter().for_each(|part| { add(&mut left, part); });
        two.iter().for_each(|part| { add(&mut right, part); });
        let (left_content, right_content) = (content(&one), content(&two));
        prop_assert_eq!(left.len(), left_content.len());
        prop_assert_eq!(left.keys().len(), left.len() / PAGE);
        for page in 0..left.keys().len().min(right.keys().len()) {
            let end = (page + 1) * PAGE;
            let same = left_content[..end] == right_content[..end];
            prop_assert_eq!(left.keys()[page] == right.keys()[page], same, "page {}", page);
        }
    }

    #[test]
    fn a_grown_and_truncated_chain_equals_one_built_at_once(before in parts(), after in parts(), cut in 0..40_usize) {
        let mut chain = empty();
        let mut completed = 0;
        for part in &before {
            completed += add(&mut chain, part);
            prop_assert_eq!(completed, chain.keys().len());
        }
        let grown = chain.clone();
        let kept: Vec<Part> = match chain.truncate(cut) {
            Ok(()) => keep(&before, cut),
            Err(ChainError::MediaCut { start, end, .. }) => {
                prop_assert!(start < cut && cut < end);
                prop_assert_eq!(chain.keys(), grown.keys());
                before.clone()
            }
            Err(other) => panic!("{other}"),
        };
        let mut fresh = empty();
        kept.iter().chain(&after).for_each(|part| { add(&mut fresh, part); });
        after.iter().for_each(|part| { add(&mut chain, part); });
        prop_assert_eq!(chain.len(), fresh.len());
        prop_assert_eq!(chain.keys(), fresh.keys());
    }
}

fn keep(parts: &[Part], mut tokens: usize) -> Vec<Part> {
    let mut kept = Vec::new();
    for part in parts {
        match part {
            Part::Tokens(of) => {
                let count = of.len().min(tokens);
                kept.push(Part::Tokens(of[..count].to_vec()));
                tokens -= count;
            }
            Part::Media(_, length) if *length <= tokens => {
                kept.push(part.clone());
                tokens -= length;
            }
            Part::Media(..) => break,
        }
    }
    kept
}

#[test]
fn rule_21_keys_are_exact_and_rooted_in_model_layout_page_size_and_salt() {
    let of = |root: KeyRoot| {
        let mut chain = KeyChain::new(root);
        chain.extend(&[1; 8]);
        chain.keys()[0]
    };
    let all = [
        of(root_of("model", "layout", 4, "tenant")),
        of(root_of("other", "layout", 4, "tenant")),
        of(root_of("model", "other", 4, "tenant")),
        of(root_of("model", "layout", 8, "tenant")),
        of(root_of("model", "layout", 4, "other")),
        of(root_of("modell", "ayout", 4, "tenant")),
    ];
    for (index, key) in all.iter().enumerate() {
        assert!(
            !all[..index].contains(key),
            "root {index} is not a root of its own"
        );
    }
}

#[test]
fn rule_21_a_match_never_ends_inside_a_page() {
    assert_eq!(keys(|chain| chain.extend(&[1; 3])).len(), 0);
    assert_eq!(keys(|chain| chain.extend(&[1; 7])).len(), 1);
}

#[test]
fn rule_21_a_media_item_is_part_of_every_page_that_it_touches() {
    let with = |digest| {
        keys(|chain| {
            chain.extend(&[1; 6]);
            chain.add_media(media(digest, 7));
            chain.extend(&[1; 7]);
        })
    };
    let (one, two) = (with(1), with(2));
    assert_eq!(one.len(), 5);
    assert_eq!(one[0], two[0], "the page before the item");
    assert!(
        one[1..].iter().zip(&two[1..]).all(|(one, two)| one != two),
        "pages it touches and all after them"
    );
    let text = keys(|chain| chain.extend(&[1, 1, 1, 1, 1, 1, 9, 9]));
    assert_eq!(
        text[0], one[0],
        "an item added later spoils nothing before it"
    );
    assert_ne!(text[1], one[1], "placeholder tokens alone are not the item");
}

#[test]
fn a_media_item_differs_by_offset_length_and_position_basis() {
    let one = keys(|chain| chain.add_media(media(1, 8)));
    let longer = keys(|chain| chain.add_media(media(1, 12)));
    let moved = keys(|chain| {
        chain.add_media(MediaItem {
            basis: 5,
            ..media(1, 8)
        })
    });
    let twice = keys(|chain| {
        chain.add_media(media(1, 4));
        chain.add_media(media(1, 4));
    });
    for other in [longer, moved, twice] {
        assert_ne!(one[0], other[0]);
        assert_ne!(one[1], other[1]);
    }
}

#[test]
fn the_encoding_of_keys_does_not_change_unnoticed() {
    let mut chain = empty();
    chain.extend(&[1, 2, 3, 4, 5]);
    chain.add_media(media(7, 3));
    let shown: Vec<String> = chain.keys().iter().map(ToString::to_string).collect();
    let expected = [
        "447eb46528ff963cc570958379fc849ea67adc2c2baa86a4504a685f7e77fea4",
        "f67e07ddbc18a27465e8582242da81317004f52eab9577dc47ce0eb5bee3643f",
    ];
    assert_eq!(
        shown, expected,
        "computed from the written encoding with another implementation"
    );
    let bytes: Vec<u8> = chain.keys().iter().flat_map(|key| key.0).collect();
    assert_eq!(PageKey::parse_all(&bytes).unwrap(), chain.keys());
    assert_eq!(PageKey::parse_all(&bytes[1..]), None);
}
