//! Locks that no panic elsewhere can spoil.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks what every change leaves whole, so that a panic of another holder can't have left it broken.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
