package expr

import (
	"context"
	"errors"
)

var errTodo = errors.New("not yet")

// NewEnv returns an environment with the given variables, the standard
// functions of CEL and the package's own [Functions].
func NewEnv(vars []Var, opts ...Option) (*Env, error) { return nil, errTodo }

// With returns an environment that has the extra variables too.
func (e *Env) With(extra ...Var) (*Env, error) { return nil, errTodo }

// WithFunc adds a function, say get(resource, name) for a drill. Arguments
// and result are plain Go values as in [Vars] and [Value].
func WithFunc(name string, params []Type, result Type, call func(args []any) (any, error)) Option {
	return nil
}

// Compile checks src.
func (e *Env) Compile(src string, want Type) (*Program, error) { return nil, errTodo }

// Ref is a use of a variable.
type Ref struct {
	Name   string
	Offset int // in bytes, in the source of the Program or Template
}

// Program is a compiled expression.
type Program struct{}

func (p *Program) Source() string { return "" }
func (p *Program) Type() Type     { return Dyn }
func (p *Program) Refs() []Ref    { return nil }

// Eval evaluates.
func (p *Program) Eval(ctx context.Context, vars Vars) (Value, error) { return Value{}, errTodo }

// Vars are values by dotted name.
type Vars map[string]any

type unknown struct{}

// Unknown stands for a value that is not known yet.
var Unknown any = unknown{}

// Value is a result.
type Value struct {
	V       any
	Unknown []string
}

// Template is a string with ${…} parts.
type Template struct{}

// Part is one part of a Template: text, or a Program.
type Part struct {
	Text    string
	Program *Program // nil for text
	Offset  int      // of the text or of the program's source, in bytes, in the template's source
}

func (e *Env) Template(src string, want Type) (*Template, error) { return nil, errTodo }

func (t *Template) Source() string                                     { return "" }
func (t *Template) IsLiteral() bool                                    { return false }
func (t *Template) Literal() string                                    { return "" }
func (t *Template) Parts() []Part                                      { return nil }
func (t *Template) Type() Type                                         { return Dyn }
func (t *Template) Refs() []Ref                                        { return nil }
func (t *Template) Eval(ctx context.Context, vars Vars) (Value, error) { return Value{}, errTodo }
func (t *Template) Symbolic(m Marker) string                           { return "" }

// Marker says how Symbolic shows what has no value yet.
type Marker struct {
	Ref     func(name string) string // a variable
	Formula func(src string) string  // any other expression
}

// Symbolic is Template.Symbolic for a bare expression.
func (p *Program) Symbolic(m Marker) string { return "" }

// Path is a plain path from one variable.
type Path struct {
	Root    string
	Steps   []PathStep
	Default *Program // of orValue, foldable by Symbolic; nil if none
}

// PathStep is a key or an index.
type PathStep struct {
	Key     string
	Index   int
	IsIndex bool
}

func (p *Program) Path() (Path, bool) { return Path{}, false }
func (p Path) JSONPath() string       { return "" }

// Function documents a function for the reference.
type Function struct {
	Name, Signature, Doc, Example string
}

// Functions lists the package's own functions.
func Functions() []Function { return nil }

func (t Type) String() string { return "" }
