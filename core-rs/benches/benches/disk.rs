//! A page to disk and back, beside its checksum alone: the checksum must not be what takes the time.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use omniflow_arena::{Content, DeviceName, DiskArena, Fingerprint, HostArena, HostOptions, Layout};
use omniflow_pages::PageId;

const BYTES: usize = 1 << 20;

#[allow(clippy::expect_used)]
fn pages(criterion: &mut Criterion) {
    let fingerprint = Fingerprint::default();
    let layout = Layout::new(
        Content::Pages,
        BYTES as u64,
        64,
        fingerprint,
        DeviceName::host(),
    );
    let layout = layout.expect("a layout");
    let memory = HostArena::create(&layout, &HostOptions::default()).expect("memory");
    let page = memory.page(PageId(0)).expect("a page");
    page.write(&vec![7; BYTES]).expect("written");
    let folder = tempfile::tempdir().expect("a folder");
    let disk = DiskArena::create(&folder.path().join("pages"), &layout).expect("a file");
    let key = [1; 32];
    let mut group = criterion.benchmark_group("disk");
    group.throughput(Throughput::Bytes(BYTES as u64));
    // SAFETY: nobody else has this memory, and nothing writes it.
    let bytes = unsafe { page.as_slice() };
    group.bench_function("checksum alone, 1 MiB", |bench| {
        bench.iter(|| blake3::hash(black_box(bytes)));
    });
    let mut next = 0;
    group.bench_function("write 1 MiB", |bench| {
        bench.iter(|| {
            next = (next + 1) % 64;
            disk.write(PageId(next), &key, bytes).expect("written");
        });
    });
    for page in 0..64 {
        disk.write(PageId(page), &key, bytes).expect("written");
    }
    let mut into = vec![0; BYTES + 4096];
    let start = into.as_ptr().align_offset(4096);
    group.bench_function("read 1 MiB", |bench| {
        bench.iter(|| {
            next = (next + 1) % 64;
            let into = &mut into[start..start + BYTES];
            disk.read(PageId(next), &key, into).expect("read");
        });
    });
    group.finish();
    eprintln!("past the system's cache: {}", disk.info().direct);
}

criterion_group!(all, pages);
criterion_main!(all);
