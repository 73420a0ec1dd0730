//! A server that means harm, over stdio.
