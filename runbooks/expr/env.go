package expr

import "cel.dev/cel-go/cel"

// Var declares a variable. Name may be dotted, as in "inputs.clusterID" or
// "steps.ids.a.id"; each part is [A-Za-z_][A-Za-z0-9_]*.
type Var struct {
	Name string
	Type Type
	Doc  string
}

// Env holds what an expression may name: variables and functions. It is
// immutable and safe for concurrent use.
type Env struct {
	cel  *cel.Env
	vars map[string]Var
}

// Option adds something besides variables to an Env.
type Option func(*Env) error
