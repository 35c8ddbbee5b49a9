//! Paged KV memory: page allocator, reference counts, generations.
