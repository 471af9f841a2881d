package expr

import (
	"fmt"
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// Function documents a function for the reference pages.
type Function struct {
	Name      string
	Signature string // one per line
	Doc       string // full sentences
	Example   string // an expression that is true
}

// function is a function of this package: its documentation and its code.
type function struct {
	Function
	opts []cel.EnvOption
}

func ownFunctions() []function {
	return slices.Concat(
		[]function{remapFunction()},
		semverFunctions(),
		quantityFunctions(),
	)
}

// Functions returns the functions that the package adds to those of CEL.
func Functions() []Function {
	var out []Function
	for _, f := range ownFunctions() {
		out = append(out, f.Function)
	}
	return out
}

// WithFunc adds a function, say get(resource, name). Its arguments and its
// result are plain Go values as in [Value]; call must be safe for concurrent
// use and must not keep what it gets.
func WithFunc(name string, params []Type, result Type, call func(args []any) (any, error)) Option {
	return func() (cel.EnvOption, error) {
		if !varName.MatchString(name) {
			return nil, fmt.Errorf("function %q: not a name", name)
		}
		args := make([]*cel.Type, len(params))
		id := "own_" + name
		for i, p := range params {
			args[i] = p.cel()
			id += "_" + args[i].TypeName()
		}
		bind := cel.FunctionBinding(func(vals ...ref.Val) ref.Val { return callGo(vals, result, call) })
		return cel.Function(name, cel.Overload(id, args, result.cel(), bind)), nil
	}
}

func callGo(vals []ref.Val, result Type, call func([]any) (any, error)) ref.Val {
	args := make([]any, len(vals))
	for i, v := range vals {
		var err error
		if args[i], err = native(v, 0); err != nil {
			return types.WrapErr(err)
		}
	}
	out, err := call(args)
	if err == nil {
		out, err = admit(out, result)
	}
	if err != nil {
		return types.WrapErr(err)
	}
	return types.DefaultTypeAdapter.NativeToValue(out)
}
