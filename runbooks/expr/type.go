package expr

import (
	"cel.dev/cel-go/cel"
)

// Type is the type of a variable or of an expression's result. The zero value
// is [Dyn]. Compare types with [Type.Equal].
type Type struct{ t *cel.Type }

// The types of single values.
var (
	String    = Type{cel.StringType}
	Bool      = Type{cel.BoolType}
	Int       = Type{cel.IntType}
	Double    = Type{cel.DoubleType}
	Bytes     = Type{cel.BytesType}
	Duration  = Type{cel.DurationType}
	Timestamp = Type{cel.TimestampType}
	Null      = Type{cel.NullType}
	Dyn       = Type{cel.DynType} // anything, checked when evaluated
)

// List returns the type of lists of elem.
func List(elem Type) Type { return Type{cel.ListType(elem.cel())} }

// Map returns the type of maps from strings to elem.
func Map(elem Type) Type { return Type{cel.MapType(cel.StringType, elem.cel())} }

// Nullable returns the type of values that are either of type t or null, such
// as an optional input without a default. Only String, Bool, Int, Double and
// Bytes have such a type; for any other, Nullable returns Dyn.
func Nullable(t Type) Type {
	switch t.cel() {
	case cel.StringType, cel.BoolType, cel.IntType, cel.DoubleType, cel.BytesType:
		return Type{cel.NullableType(t.cel())}
	}
	return Dyn
}

// Equal reports whether t and u are the same type.
func (t Type) Equal(u Type) bool { return t.cel().IsExactType(u.cel()) }

func (t Type) cel() *cel.Type {
	if t.t == nil {
		return cel.DynType
	}
	return t.t
}
