// Package runbook is the model of a runbook file: what it says, checked.
//
// [Parse] reads a file and returns a [Runbook] or everything that is wrong with
// it, with positions. A [Step] can be bound to values ([Step.Bind]), which is
// what plans and runs do, or to placeholders ([Step.Page]), which is what the
// page does; both give the same step.Action, so the page shows what the run
// does. [Schema] derives the JSON Schema from the same struct tags. The package
// reaches no cluster and starts nothing.
package runbook

import (
	"time"

	"gopkg.in/yaml.v3"

	"rutter/runbooks/diag"
	"rutter/runbooks/expr"
	"rutter/runbooks/step"
	"rutter/runbooks/yamldoc"
)

// APIVersion is what files of this language start with.
const APIVersion = "rutter/v1"

// DefaultTimeout bounds a step that says nothing about its time.
const DefaultTimeout = 5 * time.Minute

// DefaultDeadline bounds a run whose file says nothing about its time.
const DefaultDeadline = time.Hour

// Runbook is one checked file. It is immutable and safe for concurrent use.
type Runbook struct {
	// Path is where the runbook stands in its catalogue, without .yaml, such
	// as liqo/peering/force-unpeer; it is "" for a file outside one.
	Path    string
	Name    string
	Labels  map[string]string
	Title   string
	Summary string
	// Doc is Markdown.
	Doc      string
	Clusters []Cluster
	Inputs   []Input
	Requires []Requirement
	Deadline time.Duration
	Steps    []*Step
	Finally  []*Step
	// Source is the file, and Digest the SHA-256 of its text.
	Source diag.Source
	Digest string

	// assigned are the outputs that later commands on the page need as shell
	// variables.
	assigned map[string]bool
}

// Cluster is a role that a kubeconfig context is bound to at run time.
type Cluster struct {
	Role         string
	Title        string
	Doc          string
	Optional     bool
	DistinctFrom string
}

// Input is a value that the operator gives.
type Input struct {
	Name     string
	Type     InputType
	Doc      string
	Required bool
	Default  any // of the type's Go form, nil for none
	Example  string
	Pattern  string
	Values   []string // of an enum
	// Choices names the resource whose objects' names are what one can give;
	// the zero value for none.
	Choices step.Resource
	Pos     diag.Pos
}

// Requirement is something that must be there before a run starts: an API on a
// cluster, or a program on the operator's machine.
type Requirement struct {
	Cluster  string        // of Resource
	Resource step.Resource // zero for a tool
	Tool     string
	Optional bool
	Pos      diag.Pos
}

// Step is one step of a runbook.
type Step struct {
	ID    string
	Title string
	// Doc is Markdown.
	Doc string
	// Phase is a heading over this step and those after it; "" goes on with the
	// phase of the step before.
	Phase string
	Kind  *step.Kind
	// Role is the cluster it works on, "" for kinds that need none.
	Role string
	// If decides whether the step runs; nil is always.
	If *expr.Program
	// Each repeats the step for every item of a list; nil is once.
	Each *ForEach
	// Approve is the question to answer before the step runs; nil for none.
	Approve *expr.Template
	Timeout time.Duration
	Outputs []Output
	Expect  []Expect
	Rescue  []*Step
	Pos     diag.Pos

	runbook *Runbook
	args    *yaml.Node
	// strings and conditions are the compiled expressions below args, by node.
	strings    map[*yaml.Node]*expr.Template
	conditions map[*yaml.Node]*expr.Program
	page       step.Action
	// needs are the outputs that the arguments refer to, as step.name.
	needs []string
}

// ForEach repeats a step. In the step's arguments As is the item at hand; the
// step's result is the list of the results.
type ForEach struct {
	Items *expr.Program
	As    string
}

// Output is a value that later steps can use as steps.<id>.<name>.
type Output struct {
	Name  string
	Value *expr.Template
	pos   diag.Pos
}

// Expect is a piece of knowledge: a condition on the result, what it means,
// and what to do.
type Expect struct {
	Level   Level
	Cond    *expr.Program
	Message *expr.Template
	Fix     *expr.Template // nil for none
	Pos     diag.Pos
}

// Level says what an expectation that holds does.
type Level string

// A failure ends the step and starts its rescue; the others only speak.
const (
	Fail Level = "fail"
	Warn Level = "warn"
	Pass Level = "pass"
)

// Walk calls fn for every step of the runbook in order: each before its
// rescue, the finally steps last. depth is 0 outside of a rescue.
func (rb *Runbook) Walk(fn func(s *Step, depth int)) {
	walk(rb.Steps, 0, fn)
	walk(rb.Finally, 0, fn)
}

func walk(steps []*Step, depth int, fn func(*Step, int)) {
	for _, s := range steps {
		fn(s, depth)
		walk(s.Rescue, depth+1, fn)
	}
}

// Step returns the step with the id, or nil.
func (rb *Runbook) Step(id string) *Step {
	var found *Step
	rb.Walk(func(s *Step, _ int) {
		if s.ID == id {
			found = s
		}
	})
	return found
}

// Effect is that of the most dangerous step.
func (rb *Runbook) Effect() step.Effect {
	e := step.Reads
	rb.Walk(func(s *Step, _ int) { e = max(e, s.Effect()) })
	return e
}

// Cluster returns the role, or nil.
func (rb *Runbook) Cluster(role string) *Cluster {
	for i := range rb.Clusters {
		if rb.Clusters[i].Role == role {
			return &rb.Clusters[i]
		}
	}
	return nil
}

// Input returns the input, or nil.
func (rb *Runbook) Input(name string) *Input {
	for i := range rb.Inputs {
		if rb.Inputs[i].Name == name {
			return &rb.Inputs[i]
		}
	}
	return nil
}

// document is a file as written. Its tags are the schema.
type document struct {
	APIVersion string                        `yaml:"apiVersion,required" enum:"rutter/v1" doc:"The version of the language."`
	Kind       string                        `yaml:"kind,required" enum:"Runbook" doc:"What the file is."`
	Metadata   metadata                      `yaml:"metadata,required" doc:"The name and the labels."`
	Title      string                        `yaml:"title,required" doc:"The heading of the page."`
	Summary    string                        `yaml:"summary,required" doc:"One sentence: what it is for."`
	Doc        string                        `yaml:"doc" doc:"The page's introduction, in Markdown."`
	Clusters   yamldoc.NamedList[clusterDoc] `yaml:"clusters" doc:"The roles; a kubeconfig context is bound to each at run time."`
	Inputs     yamldoc.NamedList[inputDoc]   `yaml:"inputs" doc:"What the operator gives."`
	Requires   []requirementDoc              `yaml:"requires" doc:"What must be there before the run starts."`
	Deadline   time.Duration                 `yaml:"deadline" doc:"How long the whole run may take."`
	Steps      stepList                      `yaml:"steps,required" doc:"The steps, done in this order."`
	Finally    stepList                      `yaml:"finally" doc:"Steps done at the end whatever happened."`
}

type metadata struct {
	Name   string            `yaml:"name,required" doc:"The name: lower-case letters, digits and -."`
	Labels map[string]string `yaml:"labels" doc:"Labels such as product and topic, by which pages are grouped."`
}

type clusterDoc struct {
	Title        string `yaml:"title,required" doc:"What the role is called on the page."`
	Doc          string `yaml:"doc" doc:"What the reader should know about it."`
	Optional     bool   `yaml:"optional" doc:"The run works without it."`
	DistinctFrom string `yaml:"distinctFrom" doc:"A role that must be another cluster."`
}

type inputDoc struct {
	Type     string     `yaml:"type,required" enum:"string|integer|number|boolean|duration|enum|array|secret" doc:"What kind of value it is."`
	Doc      string     `yaml:"doc,required" doc:"One sentence: what to give."`
	Required bool       `yaml:"required" doc:"It must be given."`
	Default  *yamlNode  `yaml:"default" doc:"What is used where nothing is given."`
	Example  string     `yaml:"example" doc:"A value to show."`
	Pattern  string     `yaml:"pattern" doc:"A regular expression that the whole value must match."`
	Values   []string   `yaml:"values" doc:"What an enum may be."`
	Choices  choicesDoc `yaml:"choices" doc:"Objects in the cluster whose names can be given."`
}

type choicesDoc struct {
	Resource string `yaml:"resource,required" doc:"Their resource, as kubectl names it."`
}

type requirementDoc struct {
	Cluster  string `yaml:"cluster" doc:"The role that must serve the resource."`
	Resource string `yaml:"resource" doc:"A resource that must be served."`
	Tool     string `yaml:"tool" doc:"A program that must be installed here."`
	Optional bool   `yaml:"optional" doc:"Only say so if it is missing."`
}

// common are the keys that every step has beside its verb.
type common struct {
	ID      string                      `yaml:"id,required" doc:"The name by which other steps refer to it: letters, digits and _."`
	Title   string                      `yaml:"title" doc:"The heading of the step."`
	Doc     string                      `yaml:"doc" doc:"Why and how, in Markdown."`
	Phase   string                      `yaml:"phase" doc:"A heading over this step and those that follow, for long runbooks."`
	Cluster string                      `yaml:"cluster" doc:"The role whose cluster it works on. With one role it need not be said."`
	If      *yamlNode                   `yaml:"if" doc:"CEL: the step is skipped unless this holds."`
	ForEach *forEachDoc                 `yaml:"forEach" doc:"Do the step once for each item of a list, one after the other. Its result is then the list of the results."`
	Approve string                      `yaml:"approve" doc:"A question that must be answered with yes before the step runs."`
	Timeout time.Duration               `yaml:"timeout" doc:"How long it may take in all."`
	Outputs yamldoc.NamedList[yamlNode] `yaml:"outputs" doc:"Values for later steps, from the result."`
	Expect  []expectDoc                 `yaml:"expect" doc:"What may be seen, what it means, and what to do."`
	Rescue  stepList                    `yaml:"rescue" doc:"Steps done if this one fails. If they succeed, the run goes on."`
}

type forEachDoc struct {
	Items *yamlNode `yaml:"items,required" doc:"CEL: the list."`
	As    string    `yaml:"as,required" doc:"The name of the item at hand in the step's arguments."`
}

type expectDoc struct {
	Fail    *yamlNode `yaml:"fail" doc:"CEL: if this holds, the step has failed."`
	Warn    *yamlNode `yaml:"warn" doc:"CEL: if this holds, there is something to know."`
	Pass    *yamlNode `yaml:"pass" doc:"CEL: if this holds, it is as it should be."`
	Message *yamlNode `yaml:"message,required" doc:"What it means."`
	Fix     *yamlNode `yaml:"fix" doc:"What to do about it."`
}

// yamlNode keeps a value that is decoded later, when more is known.
type yamlNode struct{ *yaml.Node }

// stepList is decoded by hand: each entry has common keys and one verb.
type stepList []*stepDoc

type stepDoc struct {
	common
	node *yaml.Node
	kind *step.Kind
	key  *yaml.Node // the verb
	args *yaml.Node
}
