//! Arenas in memory: the crate `omniflow_arena` for Python. Buffers point into the mapping and keep it.

use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use omniflow_arena::{
    Access, Content, DeviceName, Fingerprint, HostArena as Host, HostOptions, HugePages, Layout,
    MemoryInfo, View,
};
use omniflow_pages::{Generation, PageId, Stamped};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arena_blobs::BlobPlace;
use crate::buffers;
use crate::errors::{self, InvalidArgument};
use crate::pages::PageAllocator;

/// Adds the classes of this file to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ArenaLayout>()?;
    module.add_class::<ArenaInfo>()?;
    module.add_class::<ArenaView>()?;
    module.add_class::<HostArena>()
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

/// Fills `view` with the bytes of `part`, writable if the arena is.
///
/// # Safety
/// `view` must be null or point to a `Py_buffer` that may be overwritten, and `owner` must hold the mapping of `part`.
pub unsafe fn export(
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
