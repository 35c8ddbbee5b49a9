//! Arenas in memory: the crate `omniflow_arena` for Python. Buffers point into the mapping and keep it.

use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use omniflow_arena::{
    Access, Blob as CoreBlob, BlobArena as Blobs, Content, DeviceName, Fingerprint,
    HostArena as Host, HostOptions, HugePages, Layout, MemoryInfo, Place, View,
};
use omniflow_pages::{Generation, Moment, OwnerId, PageId, Stamped};
use parking_lot::Mutex;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::buffers;
use crate::errors::{self, InvalidArgument};
use crate::pages::PageAllocator;

/// Adds the classes of this file to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ArenaLayout>()?;
    module.add_class::<ArenaInfo>()?;
    module.add_class::<ArenaView>()?;
    module.add_class::<HostArena>()?;
    module.add_class::<BlobArena>()?;
    module.add_class::<Blob>()?;
    module.add_class::<BlobPlace>()
}

/// What an arena is made of.
#[pyclass(module = "omniflow_core._native", frozen, eq)]
#[derive(PartialEq)]
pub struct ArenaLayout(pub(crate) Layout);

#[pymethods]
impl ArenaLayout {
    #[new]
    #[pyo3(signature = (content, *, page_bytes, pages, fingerprint, device = "cpu"))]
    fn new(
        content: &str,
        page_bytes: u64,
        pages: u32,
        fingerprint: &[u8],
        device: &str,
    ) -> PyResult<Self> {
        let contents = [Content::Pages, Content::Blobs];
        let content = contents
            .into_iter()
            .find(|each| each.to_string() == content)
            .ok_or_else(|| {
                InvalidArgument::new_err(format!(
                    "an arena cannot hold '{content}': it holds pages or blobs"
                ))
            })?;
        let fingerprint = Fingerprint(digest(fingerprint, "a fingerprint")?);
        let device = DeviceName::new(device).map_err(errors::arena)?;
        let layout = Layout::new(content, page_bytes, pages, fingerprint, device);
        layout.map(Self).map_err(errors::arena)
    }

    #[getter]
    fn content(&self) -> String {
        self.0.content().to_string()
    }

    #[getter]
    fn page_bytes(&self) -> u64 {
        self.0.page_bytes()
    }

    #[getter]
    fn pages(&self) -> u32 {
        self.0.pages()
    }

    #[getter]
    fn fingerprint<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.fingerprint().0)
    }

    #[getter]
    fn device(&self) -> &str {
        self.0.device().as_str()
    }

    #[getter]
    fn data_bytes(&self) -> u64 {
        self.0.data_bytes()
    }

    fn require(&self, expected: &Self) -> PyResult<()> {
        self.0.require(&expected.0).map_err(errors::arena)
    }

    fn __hash__(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.0.fingerprint().0;
        u64::from_le_bytes([a, b, c, d, e, f, g, h]) ^ self.0.data_bytes()
    }

    fn __repr__(&self) -> String {
        format!(
            "ArenaLayout('{}', page_bytes={}, pages={}, fingerprint={}.., device='{}')",
            self.0.content(),
            self.0.page_bytes(),
            self.0.pages(),
            self.0.fingerprint(),
            self.0.device()
        )
    }
}

/// How an arena lies in this process.
#[pyclass(module = "omniflow_core._native", frozen, get_all)]
pub struct ArenaInfo {
    mapped_bytes: u64,
    prefaulted: bool,
    huge_pages: &'static str,
    writable: bool,
}

impl From<MemoryInfo> for ArenaInfo {
    fn from(info: MemoryInfo) -> Self {
        Self {
            mapped_bytes: info.mapped_bytes,
            prefaulted: info.prefaulted,
            huge_pages: match info.huge_pages {
                HugePages::None => "none",
                HugePages::Advised => "advised",
                HugePages::Reserved => "reserved",
            },
            writable: info.writable,
        }
    }
}

/// Memory that processes share.
#[pyclass(module = "omniflow_core._native", frozen)]
pub struct HostArena(pub(crate) Host);

#[pymethods]
impl HostArena {
    #[staticmethod]
    #[pyo3(signature = (layout, *, name = "omniflow-arena", prefault = false, huge_pages = true))]
    fn create(
        py: Python<'_>,
        layout: &ArenaLayout,
        name: &str,
        prefault: bool,
        huge_pages: bool,
    ) -> PyResult<Self> {
        let options = HostOptions {
            name: name.into(),
            prefault,
            huge_pages,
        };
        // Finding much memory takes a while.
        let created = py.detach(|| Host::create(&layout.0, &options));
        created.map(Self).map_err(errors::arena)
    }

    #[staticmethod]
    #[pyo3(signature = (descriptor, layout, *, writable = true))]
    fn open(descriptor: RawFd, layout: &ArenaLayout, writable: bool) -> PyResult<Self> {
        let own = duplicate(descriptor)?;
        let opened = Host::open(own, &layout.0, access(writable));
        opened.map(Self).map_err(errors::arena)
    }

    #[getter]
    fn layout(&self) -> ArenaLayout {
        ArenaLayout(self.0.layout().clone())
    }

    #[getter]
    fn id<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.id().0)
    }

    #[getter]
    fn info(&self) -> ArenaInfo {
        self.0.info().into()
    }

    fn fileno(&self) -> RawFd {
        self.0.descriptor().as_raw_fd()
    }

    #[pyo3(signature = (reserved = 1))]
    fn allocator(&self, reserved: u32) -> PyResult<PageAllocator> {
        let allocator = self.0.allocator(reserved).map_err(errors::arena)?;
        Ok(PageAllocator { allocator })
    }

    fn generation(&self, page: u32) -> PyResult<u64> {
        let generation = self.0.generation(PageId(page));
        generation
            .map(|generation| generation.0)
            .map_err(errors::arena)
    }

    fn verify(&self, page: u32, generation: u64) -> PyResult<()> {
        let noted = Stamped {
            page: PageId(page),
            generation: Generation(generation),
        };
        self.0.verify(noted).map_err(errors::arena)
    }

    fn verify_all(&self, pages: &Bound<'_, PyAny>, generations: &Bound<'_, PyAny>) -> PyResult<()> {
        let (pages, generations) = buffers::stamps(pages, generations)?;
        for (page, generation) in pages.into_iter().zip(generations) {
            self.verify(page, generation)?;
        }
        Ok(())
    }

    fn view(&self, offset: u64, bytes: u64) -> PyResult<ArenaView> {
        let view = self.0.view(offset, bytes);
        view.map(ArenaView).map_err(errors::arena)
    }

    fn page(&self, page: u32) -> PyResult<ArenaView> {
        let view = self.0.page(PageId(page));
        view.map(ArenaView).map_err(errors::arena)
    }

    fn blob(&self, place: &BlobPlace) -> PyResult<ArenaView> {
        let view = self.0.blob(place.0);
        view.map(ArenaView).map_err(errors::arena)
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let pages = slf.get().0.pages().map_err(errors::arena)?;
        // SAFETY: Python passes a view to fill; `slf` holds the mapping that `pages` lies in.
        unsafe { export(slf.into_any(), view, flags, &pages) }
    }

    fn __repr__(&self) -> String {
        format!(
            "HostArena({})",
            ArenaLayout(self.0.layout().clone()).__repr__()
        )
    }
}

/// A part of an arena.
#[pyclass(module = "omniflow_core._native", frozen)]
pub struct ArenaView(pub(crate) View);

#[pymethods]
impl ArenaView {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    #[getter]
    fn offset(&self) -> u64 {
        self.0.offset()
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let part = slf.get().0.clone();
        // SAFETY: Python passes a view to fill; `slf` holds the mapping that the part lies in.
        unsafe { export(slf.into_any(), view, flags, &part) }
    }
}

/// Hands out room for tensors and media.
#[pyclass(module = "omniflow_core._native", frozen)]
pub struct BlobArena(Blobs);

#[pymethods]
impl BlobArena {
    #[new]
    #[pyo3(signature = (arena, allocator = None))]
    fn new(arena: &HostArena, allocator: Option<&PageAllocator>) -> PyResult<Self> {
        let arena = arena.0.clone();
        match allocator {
            Some(allocator) => Ok(Self(Blobs::over(arena, allocator.allocator.clone()))),
            None => Blobs::whole(arena).map(Self).map_err(errors::arena),
        }
    }

    #[getter]
    fn arena(&self) -> HostArena {
        HostArena(self.0.arena().clone())
    }

    #[getter]
    fn allocator(&self) -> PageAllocator {
        PageAllocator {
            allocator: self.0.allocator().clone(),
        }
    }

    #[pyo3(signature = (bytes, tenant = ""))]
    fn allocate(&self, bytes: u64, tenant: &str) -> PyResult<Blob> {
        let blob = self.0.allocate_for(tenant, bytes).map_err(errors::arena)?;
        Ok(Blob {
            place: blob.place(),
            view: blob.view().clone(),
            blob: Mutex::new(Some(blob)),
        })
    }
}

/// Where a blob lies.
#[pyclass(module = "omniflow_core._native", frozen, eq)]
#[derive(Clone, PartialEq)]
pub struct BlobPlace(Place);

#[pymethods]
impl BlobPlace {
    #[new]
    #[pyo3(signature = (*, offset, bytes, page, generation))]
    fn new(offset: u64, bytes: u64, page: u32, generation: u64) -> Self {
        Self(Place {
            offset,
            bytes,
            first: Stamped {
                page: PageId(page),
                generation: Generation(generation),
            },
        })
    }

    #[getter]
    fn offset(&self) -> u64 {
        self.0.offset
    }

    #[getter]
    fn bytes(&self) -> u64 {
        self.0.bytes
    }

    #[getter]
    fn page(&self) -> u32 {
        self.0.first.page.0
    }

    #[getter]
    fn generation(&self) -> u64 {
        self.0.first.generation.0
    }

    fn __hash__(&self) -> u64 {
        self.0.offset ^ self.0.first.generation.0.rotate_left(32)
    }

    fn __repr__(&self) -> String {
        format!(
            "BlobPlace(offset={}, bytes={}, page={}, generation={})",
            self.0.offset, self.0.bytes, self.0.first.page, self.0.first.generation
        )
    }
}

/// Room for one tensor.
#[pyclass(module = "omniflow_core._native", frozen)]
pub struct Blob {
    /// `None` once released. Locked before an allocator, and never while waiting for the GIL.
    blob: Mutex<Option<CoreBlob>>,
    place: Place,
    view: View,
}

impl Blob {
    fn with<T>(&self, work: impl FnOnce(&CoreBlob) -> T) -> PyResult<T> {
        let blob = self.blob.lock();
        let blob = blob.as_ref().ok_or_else(|| errors::released("Blob"))?;
        Ok(work(blob))
    }
}

#[pymethods]
impl Blob {
    fn __len__(&self) -> usize {
        self.view.len()
    }

    #[getter]
    fn place(&self) -> BlobPlace {
        BlobPlace(self.place)
    }

    #[getter]
    fn released(&self) -> bool {
        self.blob.lock().is_none()
    }

    fn lease(&self, holder: u64, until: u64) -> PyResult<u64> {
        let lease = self.with(|blob| {
            let run = blob.run();
            run.allocator()
                .lease(&run.stamped(), OwnerId(holder), Moment(until))
        })?;
        lease.map(|lease| lease.0).map_err(errors::pages)
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let bytes = slf.get().with(|blob| blob.view().clone())?;
        // SAFETY: Python passes a view to fill; `slf` holds the mapping that the bytes lie in.
        unsafe { export(slf.into_any(), view, flags, &bytes) }
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (kind, error, trace, /))]
    fn __exit__(&self, kind: Py<PyAny>, error: Py<PyAny>, trace: Py<PyAny>) {
        let _ = (kind, error, trace);
        self.release();
    }

    fn release(&self) {
        drop(self.blob.lock().take());
    }
}

/// Fills `view` with the bytes of `part`, writable if the arena is.
///
/// # Safety
/// `view` must be null or point to a `Py_buffer` that may be overwritten, and `owner` must hold the mapping of `part`.
unsafe fn export(
    owner: Bound<'_, PyAny>,
    view: *mut ffi::Py_buffer,
    flags: c_int,
    part: &View,
) -> PyResult<()> {
    if view.is_null() {
        return Err(PyBufferError::new_err("no view to fill"));
    }
    let readonly = !part.arena().writable();
    // SAFETY: `view` may be overwritten, and gets a reference to `owner`, which keeps the bytes mapped (contract of this
    // function). FillInfo refuses a writable view of what is read-only.
    let filled = unsafe {
        ffi::PyBuffer_FillInfo(
            view,
            owner.as_ptr(),
            part.as_ptr().cast::<c_void>(),
            part.len() as ffi::Py_ssize_t,
            c_int::from(readonly),
            flags,
        )
    };
    if filled < 0 {
        return Err(PyErr::fetch(owner.py()));
    }
    Ok(())
}

/// A descriptor of our own for one that is the caller's.
pub fn duplicate(descriptor: RawFd) -> PyResult<OwnedFd> {
    if descriptor < 0 {
        return Err(InvalidArgument::new_err(format!(
            "{descriptor} is no descriptor: pass what fileno() gave, of an open object"
        )));
    }
    // SAFETY: it is borrowed for the length of this call only; one that is not open is an error of the system call.
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
    borrowed.try_clone_to_owned().map_err(|error| {
        InvalidArgument::new_err(format!("descriptor {descriptor} cannot be used: {error}"))
    })
}

pub fn access(writable: bool) -> Access {
    if writable {
        Access::Write
    } else {
        Access::Read
    }
}

/// 32 bytes; `what` names them to the caller.
pub fn digest(bytes: &[u8], what: &str) -> PyResult<[u8; 32]> {
    bytes
        .try_into()
        .map_err(|_| InvalidArgument::new_err(format!("{what} of {} bytes: pass 32", bytes.len())))
}
