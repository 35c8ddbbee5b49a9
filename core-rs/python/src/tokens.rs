//! Token ids from buffers of whatever integers a tokenizer gives.

use std::fmt::Display;
use std::ops::BitOr;

use pyo3::prelude::*;

use crate::buffers;
use crate::errors::InvalidArgument;

/// Token ids of an int32, uint32 or int64 buffer of one dimension, copied: the caller may change its buffer while they
/// are hashed without the GIL.
pub fn read(object: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
    let py = object.py();
    let buffer = buffers::open(object, "tokens")?;
    if buffer.dimensions() != 1 {
        let dimensions = buffer.dimensions();
        return Err(InvalidArgument::new_err(format!(
            "tokens have {dimensions} dimensions: pass one sequence, flat"
        )));
    }
    if let Ok(typed) = buffer.as_typed::<u32>() {
        return typed.to_vec(py);
    }
    if let Ok(typed) = buffer.as_typed::<i64>() {
        return narrowed(typed.to_vec(py)?, |id| id as u32);
    }
    if let Ok(typed) = buffer.as_typed::<i32>() {
        return narrowed(typed.to_vec(py)?, |id| id as u32);
    }
    let format = buffer.format().to_string_lossy();
    Err(InvalidArgument::new_err(format!(
        "tokens are of format '{format}': pass int32, uint32 or int64"
    )))
}

/// `narrow` may cut bits off: it is called only when no id has such bits.
fn narrowed<T>(ids: Vec<T>, narrow: impl Fn(T) -> u32) -> PyResult<Vec<u32>>
where
    T: Copy + Default + Display + BitOr<Output = T>,
    u32: TryFrom<T>,
{
    // All at once, which takes a tenth of asking each: too large or negative are bits that an id does not have.
    let bits = ids.iter().fold(T::default(), |bits, &id| bits | id);
    if u32::try_from(bits).is_ok() {
        return Ok(ids.into_iter().map(narrow).collect());
    }
    let mut numbered = ids.into_iter().enumerate();
    let wrong = numbered.find(|(_, id)| u32::try_from(*id).is_err());
    let (position, id) = wrong.unwrap_or_default();
    Err(InvalidArgument::new_err(format!(
        "token {id} at position {position} is no id: ids are 0 to 4294967295"
    )))
}
