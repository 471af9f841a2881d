package expr

import (
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
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
func (t Type) Equal(u Type) bool { return cel.FormatCELType(t.cel()) == cel.FormatCELType(u.cel()) }

func (t Type) cel() *cel.Type {
	if t.t == nil {
		return cel.DynType
	}
	return t.t
}

// String returns the type as it reads in a message after "want": "a string",
// "a list of int", "anything".
func (t Type) String() string { return withArticle(typeWords(t.cel())) }

// typeWords returns the type without an article.
func typeWords(t *cel.Type) string {
	if u, ok := unwrapped(t); ok {
		return typeWords(u) + " or null"
	}
	switch t.Kind() {
	case types.DynKind, types.AnyKind, types.TypeParamKind:
		return "anything"
	case types.NullTypeKind:
		return "null"
	case types.ListKind:
		return collection("list", t.Parameters()[0])
	case types.MapKind:
		return collection("map", t.Parameters()[1])
	case types.DoubleKind:
		return "number"
	case types.UintKind:
		return "unsigned int"
	case types.TypeKind:
		return "type"
	}
	if isOptional(t) {
		return optionalWords(typeWords(t.Parameters()[0]))
	}
	return nameWords(t.DeclaredTypeName())
}

func collection(kind string, elem *cel.Type) string {
	if w := typeWords(elem); w != "anything" {
		return kind + " of " + w
	}
	return kind
}

func optionalWords(of string) string {
	if of == "anything" {
		return "optional value"
	}
	return "optional " + of
}

// nameWords returns what a person calls CEL's type of the given name.
func nameWords(name string) string {
	switch name {
	case "net.IP":
		return "IP address"
	case "net.CIDR":
		return "CIDR"
	case "google.protobuf.Duration":
		return "duration"
	case "google.protobuf.Timestamp":
		return "timestamp"
	case "dyn", "any":
		return "anything"
	case "null_type":
		return "null"
	case "double":
		return "number"
	case "uint":
		return "unsigned int"
	}
	return strings.ToLower(strings.TrimPrefix(name, "rutter."))
}

func withArticle(words string) string {
	switch {
	case words == "anything" || words == "null" || words == "bytes":
		return words
	case strings.ContainsRune("aeioAEIO", rune(words[0])) || strings.HasPrefix(words, "un"):
		return "an " + words
	}
	return "a " + words
}

// unwrapped returns the type that is T in Nullable(T).
func unwrapped(t *cel.Type) (*cel.Type, bool) {
	for _, u := range []*cel.Type{cel.StringType, cel.BoolType, cel.IntType, cel.DoubleType, cel.BytesType} {
		if t.Kind() == u.Kind() && t.IsAssignableType(cel.NullType) {
			return u, true
		}
	}
	return nil, false
}

// base is the shape of a type, Nullable or not.
type base int

const (
	baseOther base = iota
	baseString
	baseBool
	baseInt
	baseDouble
	baseDuration
	baseTimestamp
	baseList
	baseMap
)

func (t Type) base() base {
	c := t.cel()
	if u, ok := unwrapped(c); ok {
		c = u
	}
	switch c.Kind() {
	case types.StringKind:
		return baseString
	case types.BoolKind:
		return baseBool
	case types.IntKind:
		return baseInt
	case types.DoubleKind:
		return baseDouble
	case types.DurationKind:
		return baseDuration
	case types.TimestampKind:
		return baseTimestamp
	case types.ListKind:
		return baseList
	case types.MapKind:
		return baseMap
	}
	return baseOther
}

// isOptional reports whether values of t are made by .? and its like.
func isOptional(t *cel.Type) bool {
	return t.Kind() == types.OpaqueKind && t.TypeName() == "optional_type"
}
