// Package step defines what a runbook step can do.
//
// A [Kind] is one verb of the language. Its [Action] is the verb's arguments
// with every expression evaluated, and from that one value come the kubectl
// lines on the page, the permissions, the effect, the plan and the run; so the
// page and the run cannot disagree. [Builtin] lists the kinds, each of which
// is one file. The package declares the cluster it needs as small interfaces
// and imports no Kubernetes client, so that the site generator can render
// every step without linking one.
package step

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Kind is a verb: what it is called, what it does, and how its arguments are
// written. Kinds are values; a list of them is passed to whoever decodes.
type Kind struct {
	// Name is the key under which the arguments stand in a step.
	Name string
	// Doc is Markdown for the reference page; its first sentence is a summary.
	Doc string
	// Example is a whole step in YAML, shown in the reference and kept true by
	// a test.
	Example string
	// New returns a pointer to zero arguments. The struct's tags are the
	// schema: yaml names a field, doc describes it (see the package runbook).
	New func() Action
	// Result says what `result` is in outputs and expect, "" if there is none.
	Result string
	// NoCluster is set for verbs that work without a cluster.
	NoCluster bool
	// Named is set for verbs whose arguments are named values, each of which
	// is an output.
	Named bool
}

// Action is a step's work, ready to be shown, planned or done. Strings in it
// are either final, or hold markers (see [Mark]) where a page shows what the
// reader will fill in; methods without a context must cope with both.
type Action interface {
	// Effect is how dangerous the action is.
	Effect() Effect
	// Permissions are what the action asks of the cluster, in run and preview.
	// A namespace that is not known yet holds a marker.
	Permissions() []Permission
	// Kubectl is what a person types to do the same by hand; none if a person
	// has nothing to type.
	Kubectl() []Line
	// Preview reports what Run would do now. It cannot write: a Reader cannot.
	Preview(ctx context.Context, r Reader) (*Preview, error)
	// Run does it. A Cluster is nil for kinds with NoCluster. Canceling ctx
	// ends every wait.
	Run(ctx context.Context, c Cluster, h Host) (*Result, error)
}

// Checker is an Action that can tell from its arguments alone that they do not
// fit together. Problems are reported at the verb's key when a file is read.
type Checker interface {
	// Check returns one message for each problem, each with what to type.
	Check() []Problem
}

// Selecter is an Action whose result a person can take a value from by hand:
// the page shows how an output that later commands need is put into a shell
// variable.
type Selecter interface {
	// Select returns the command that prints the value at a kubectl JSONPath
	// below the result, such as {.status.role}.
	Select(jsonPath string) Line
}

// Roled is an Action that hands its cluster over to something else.
type Roled interface {
	// SetRole tells the action the role it works on, "" for none.
	SetRole(role string)
}

// Timed is an Action that waits, and so has to know how long it may: the
// step's timeout stands in its kubectl lines too. Embed [Timeout].
type Timed interface{ setTimeout(d time.Duration) }

// Timeout is the time a step may take in all.
type Timeout struct{ limit time.Duration }

func (t *Timeout) setTimeout(d time.Duration) { t.limit = d }

// SetTimeout tells an action how long it may take, if it wants to know.
func SetTimeout(a Action, d time.Duration) {
	if t, ok := a.(Timed); ok {
		t.setTimeout(d)
	}
}

// Condition is a bare CEL expression over `result` that an action evaluates
// again and again. On a page it has only its Source.
type Condition struct {
	Source string
	// Eval is nil where nothing is evaluated. An error means that the
	// condition cannot be judged on this result.
	Eval func(ctx context.Context, result any) (bool, error)
	// Equals is set for conditions of the form path == "text": the kubectl
	// JSONPath and the text.
	Equals *Equality
}

// Equality is a condition that kubectl can wait for.
type Equality struct{ JSONPath, Text string }

// Problem is something wrong with the arguments of a step.
type Problem struct {
	Field   string // the YAML key it is about, "" for the verb as a whole
	Message string
	Hint    string
}

// Host is the person and the machine that a run has at hand.
type Host interface {
	// Progress tells the person what is being waited for. It is one line,
	// replaced by the next.
	Progress(text string)
	// Command runs a local program without a shell.
	Command(ctx context.Context, cmd Command) (*CommandResult, error)
	// Confirm shows instructions and waits until the person has followed them.
	// It returns an error if they decline.
	Confirm(ctx context.Context, question string) error
}

// Command is a local program to run. Env entries are NAME=value, added to the
// environment of Rutter.
type Command struct {
	Args  []string
	Env   []string
	Stdin string
	// Role is the cluster whose kubeconfig the program is to see as its only
	// and current context; "" hands over none.
	Role string
}

// CommandResult is how a local program ended. Stdout and Stderr are bounded;
// Truncated says that there was more.
type CommandResult struct {
	ExitCode  int
	Stdout    string
	Stderr    string
	Truncated bool
}

// Result is what a step found or did.
type Result struct {
	// Value is `result` in outputs and expect: JSON-like data.
	Value any
	// Said is one line for the transcript, such as "2 deleted".
	Said string
	// Table is shown below the step if it has rows.
	Table *Table
}

// Table is rows of text under headings.
type Table struct {
	Head []string
	Rows [][]string
}

// Preview is what a step would do to the objects as they are now.
type Preview struct {
	// Said is one line: "nothing to do", "would delete 3 resourceslices…".
	Said string
	// Changes are the objects it would touch, in the order it would.
	Changes []Change
	// Idle says that Run would change nothing. It is false where that cannot
	// be told, and for steps that only read.
	Idle bool
	// Value is what the result would be, if Known; a step that only reads
	// knows it, so that the plan can go on from there.
	Value any
	Known bool
}

// Change is one object that a step would touch.
type Change struct {
	Op     Op
	Object Ref
	// Before and After are the object now and as the server says it would be;
	// nil where there is none.
	Before, After *unstructured.Unstructured
	// Note says what to know about it, such as "is already being deleted".
	Note string
}

// Op is what happens to an object.
type Op string

// The operations that plans and journals name.
const (
	OpCreate Op = "create"
	OpUpdate Op = "update"
	OpDelete Op = "delete"
)

// Effect is how dangerous a step is, from least to most.
type Effect int

// The effects, least dangerous first.
const (
	Reads    Effect = iota // reads the cluster
	RunsHere               // runs a program on the operator's machine
	Changes                // changes objects
	Destroys               // deletes what cannot simply be made again
)

// String returns the word that pages and plans show.
func (e Effect) String() string {
	return [...]string{"reads", "runs here", "changes", "destroys"}[e]
}

// ParseEffect returns the effect that a step declares by word.
func ParseEffect(word string) (Effect, bool) {
	for e := Reads; e <= Destroys; e++ {
		if e.String() == word {
			return e, true
		}
	}
	return Reads, false
}

// Builtin returns the verbs of the language, in the order of the reference.
// Adding one is its file, its test, and a line here.
func Builtin() []*Kind {
	return []*Kind{
		Get(),
		Check(),
		Set(),
		Wait(),
		Explain(),
		Apply(),
		Patch(),
		Delete(),
		Unfinalize(),
		RunCommand(),
		Manual(),
	}
}
