//! Page keys (chained keyed BLAKE3) and the prefix-closed index over them.
