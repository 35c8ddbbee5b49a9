//! Vectors that keep little room to spare: an index has very many, and most never change again.

/// Adds `count` items.
pub(crate) fn extend_frugally<T>(
    items: &mut Vec<T>,
    count: usize,
    more: impl IntoIterator<Item = T>,
) {
    if items.capacity() - items.len() < count {
        items.reserve_exact(count.max(items.len() / 4));
    }
    items.extend(more);
}

/// Keeps the first `count` items, and not much more memory than they need.
pub(crate) fn shorten_frugally<T>(items: &mut Vec<T>, count: usize) {
    items.truncate(count);
    if items.len() < items.capacity() / 2 {
        items.shrink_to(items.len() + items.len() / 4);
    }
}

/// Moves the first `count` items out.
pub(crate) fn cut_frugally<T>(items: &mut Vec<T>, count: usize) -> Vec<T> {
    let tail = items.split_off(count);
    let mut head = std::mem::replace(items, tail);
    head.shrink_to_fit();
    head
}
