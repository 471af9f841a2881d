package expr

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/ext"
)

// maxRange bounds the lists that lists.range makes.
const maxRange = 100_000

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
	base *cel.Env // functions only
	cel  *cel.Env // base and vars
	vars map[string]Var
}

// Option adds something besides variables to an Env.
type Option func() (cel.EnvOption, error)

var varName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$`)

// NewEnv returns an environment with the given variables, the standard
// functions of CEL and the package's own [Functions]. It is cheap without
// options. An error means that a variable or option is declared wrongly.
func NewEnv(vars []Var, opts ...Option) (*Env, error) {
	base, err := baseEnv()
	if err != nil {
		return nil, err
	}
	var celOpts []cel.EnvOption
	for _, o := range opts {
		opt, err := o()
		if err != nil {
			return nil, err
		}
		celOpts = append(celOpts, opt)
	}
	if len(celOpts) > 0 {
		if base, err = base.Extend(celOpts...); err != nil {
			return nil, fmt.Errorf("add functions: %w", err)
		}
	}
	byName := map[string]Var{}
	for _, v := range vars {
		if _, ok := byName[v.Name]; ok {
			return nil, fmt.Errorf("variable %q is declared twice", v.Name)
		}
		byName[v.Name] = v
	}
	return newEnv(base, byName)
}

// With returns an environment that has the extra variables too. One that e
// has already is declared anew.
func (e *Env) With(extra ...Var) (*Env, error) {
	vars := maps.Clone(e.vars)
	for _, v := range extra {
		vars[v.Name] = v
	}
	return newEnv(e.base, vars)
}

// Vars returns the declared variables in the order of their names.
func (e *Env) Vars() []Var {
	out := make([]Var, 0, len(e.vars))
	for _, name := range slices.Sorted(maps.Keys(e.vars)) {
		out = append(out, e.vars[name])
	}
	return out
}

func newEnv(base *cel.Env, vars map[string]Var) (*Env, error) {
	opts := make([]cel.EnvOption, 0, len(vars))
	for name, v := range vars {
		if !varName.MatchString(name) {
			return nil, fmt.Errorf("variable %q: want letters, digits and _, in parts separated by dots", name)
		}
		opts = append(opts, cel.Variable(name, v.Type.cel()))
	}
	c, err := base.Extend(opts...)
	if err != nil {
		return nil, fmt.Errorf("declare variables: %w", err)
	}
	return &Env{base: base, cel: c, vars: vars}, nil
}

// known returns the declared names below prefix, or all for "".
func (e *Env) known(prefix string) []string {
	var names []string
	for name := range e.vars {
		if prefix == "" || strings.HasPrefix(name, prefix+".") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// isPrefix reports whether name stands before the dot of a declared name.
func (e *Env) isPrefix(name string) bool { return len(e.known(name)) > 0 }

// baseEnv is shared by all environments: building one takes milliseconds.
var baseEnv = sync.OnceValues(func() (*cel.Env, error) {
	opts := []cel.EnvOption{
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
		cel.EnableIdentifierEscapeSyntax(),
		cel.EnableMacroCallTracking(),
		cel.OptionalTypes(),
		ext.Strings(),
		ext.Lists(ext.ListsMaxRangeSize(maxRange)),
		ext.Sets(),
		ext.Encoders(),
		ext.Regex(),
		ext.Math(),
		ext.TwoVarComprehensions(),
		ext.Bindings(),
		ext.Network(),
		cel.ASTValidators(
			cel.ValidateDurationLiterals(),
			cel.ValidateTimestampLiterals(),
			cel.ValidateRegexLiterals(),
		),
	}
	for _, f := range ownFunctions() {
		opts = append(opts, f.opts...)
	}
	return cel.NewEnv(opts...)
})
