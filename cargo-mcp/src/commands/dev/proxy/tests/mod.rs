mod builds;
mod changes;
mod ends;
mod script;
