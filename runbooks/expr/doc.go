// Package expr evaluates the CEL expressions of a runbook.
//
// An [Env] declares the variables an expression may name; it compiles CEL to
// a [Program] and strings with ${…} parts to a [Template]. Both report what
// is wrong in plain words at a byte offset ([Errors]), say which variables
// they use, and evaluate with some variables still [Unknown], so that a plan
// can be made before a run. The package knows nothing of files, steps or
// clusters: its callers declare the variables and turn offsets into lines and
// columns.
package expr
