package runbook

import (
	"path"
	"strings"

	"gopkg.in/yaml.v3"

	"rutter/runbooks/diag"
	"rutter/runbooks/expr"
	"rutter/runbooks/step"
	"rutter/runbooks/yamldoc"
)

// Drill proves a runbook: it makes trouble on practice clusters with the
// runbook language's own verbs, runs the runbook, and says how it must end.
type Drill struct {
	// Path is where the drill stands in its catalogue, without .drill.yaml.
	Path    string
	Name    string
	Title   string
	Doc     string
	Runbook string
	// CRDs are, by role, the sets of custom resources to install first.
	CRDs    map[string][]string
	Setup   []*Step
	Inputs  map[string]string
	Answers map[string]string // approve or decline, by step
	Expect  DrillExpect
	Source  diag.Source

	setup *Runbook
}

// DrillExpect is how a drill must end.
type DrillExpect struct {
	Outcome   string
	Findings  []FindingExpect
	Clusters  map[string][]ClusterExpect
	Untouched []Untouched
}

// FindingExpect is a finding that must be among those of the run.
type FindingExpect struct {
	Step     string
	Level    Level
	Contains string
}

// ClusterExpect is a CEL condition on a cluster, with the functions get and
// list.
type ClusterExpect struct {
	Source string
	Pos    diag.Pos
}

// Untouched names objects that must have the same resourceVersion after the
// run as before.
type Untouched struct {
	Cluster   string
	Resource  step.Resource
	Namespace string
	Name      string
	Selector  string
}

type drillDoc struct {
	APIVersion string                             `yaml:"apiVersion,required" enum:"rutter/v1" doc:"The version of the language."`
	Kind       string                             `yaml:"kind,required" enum:"Drill" doc:"What the file is."`
	Metadata   metadata                           `yaml:"metadata,required" doc:"The name and the labels."`
	Runbook    string                             `yaml:"runbook,required" doc:"The runbook to prove."`
	Title      string                             `yaml:"title,required" doc:"The trouble, in a sentence."`
	Doc        string                             `yaml:"doc" doc:"What the drill shows, in Markdown."`
	Clusters   yamldoc.NamedList[drillClusterDoc] `yaml:"clusters" doc:"The roles of the runbook, each a practice cluster."`
	Setup      stepList                           `yaml:"setup" doc:"Steps that make the trouble."`
	Inputs     map[string]any                     `yaml:"inputs" doc:"The runbook's inputs."`
	Answers    map[string]string                  `yaml:"answers" doc:"approve or decline, by step; all others are approved."`
	Expect     drillExpectDoc                     `yaml:"expect,required" doc:"How it must end."`
}

type drillClusterDoc struct {
	CRDs []string `yaml:"crds" doc:"Sets of custom resources to install."`
}

type drillExpectDoc struct {
	Outcome   string                        `yaml:"outcome,required" enum:"done|nothing to do|failed|refused|declined" doc:"How the run ends."`
	Findings  []findingDoc                  `yaml:"findings" doc:"Findings that must be there."`
	Clusters  yamldoc.NamedList[[]yamlNode] `yaml:"clusters" doc:"CEL conditions by role, with get(resource, [namespace,] name) and list(resource[, selector])."`
	Untouched []untouchedDoc                `yaml:"untouched" doc:"Objects that must not change."`
}

type findingDoc struct {
	Step     string `yaml:"step,required" doc:"The step that found it."`
	Severity string `yaml:"severity,required" enum:"fail|warn|pass" doc:"The level of the expectation."`
	Message  struct {
		Contains string `yaml:"contains,required" doc:"Text in the message."`
	} `yaml:"message" doc:"What it says."`
}

type untouchedDoc struct {
	Cluster   string `yaml:"cluster" doc:"The role; with one it need not be said."`
	Resource  string `yaml:"resource,required" doc:"The resource, as kubectl names it."`
	Namespace string `yaml:"namespace" doc:"The namespace, or all."`
	Name      string `yaml:"name" doc:"The name, or any."`
	Selector  string `yaml:"selector" doc:"Labels, or any."`
}

// ParseDrill reads one drill file, like Parse.
func ParseDrill(src diag.Source, kinds []*step.Kind) (*Drill, error) {
	var list diag.List
	src.Text = yamldoc.Normalize(src.Text)
	root := yamldoc.Parse(src, &list)
	if root == nil {
		return nil, list.Err()
	}
	p := &parser{src: src, kinds: kinds, list: &list}
	p.dec = p.decoder()
	var doc drillDoc
	p.dec.Into(root, &doc, "the drill")
	d := p.drill(&doc, root)
	if err := list.Err(); err != nil {
		return nil, err
	}
	return d, nil
}

func (p *parser) drill(doc *drillDoc, root *yaml.Node) *Drill {
	d := &Drill{
		Path: strings.TrimSuffix(p.src.Name, ".drill.yaml"), Name: doc.Metadata.Name, Title: doc.Title, Doc: doc.Doc, Runbook: doc.Runbook,
		CRDs: map[string][]string{}, Answers: doc.Answers, Inputs: p.drillInputs(root), Source: p.src,
		Expect: DrillExpect{Outcome: doc.Expect.Outcome, Clusters: map[string][]ClusterExpect{}},
	}
	rb := &Runbook{Name: d.Name, Title: d.Title, Source: p.src, Deadline: DefaultDeadline, assigned: map[string]bool{}}
	for _, c := range doc.Clusters {
		rb.Clusters = append(rb.Clusters, Cluster{Role: c.Name, Title: c.Name})
		d.CRDs[c.Name] = c.Value.CRDs
	}
	c := &compiler{parser: p, rb: rb, ids: map[string]diag.Pos{}, outputs: map[string]*Step{}}
	c.runbook(&document{Steps: doc.Setup})
	d.Setup, d.setup = rb.Steps, rb
	for step, answer := range doc.Answers {
		if answer != "approve" && answer != "decline" {
			p.list.AddHint(p.dec.Pos(child(root, "answers")), diag.DidYouMean(answer, []string{"approve", "decline"}), "answers: %s: %q is no answer", step, answer)
		}
	}
	for _, f := range doc.Expect.Findings {
		d.Expect.Findings = append(d.Expect.Findings, FindingExpect{f.Step, Level(f.Severity), f.Message.Contains})
	}
	p.drillClusters(d, rb, doc)
	return d
}

// SetupRunbook returns the setup steps as a runbook that can be run.
func (d *Drill) SetupRunbook() *Runbook { return d.setup }

// drillInputs keeps the inputs as text, as on a command line.
func (p *parser) drillInputs(root *yaml.Node) map[string]string {
	inputs := map[string]string{}
	n := child(root, "inputs")
	if n == root || n.Kind != yaml.MappingNode {
		return inputs
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		v := n.Content[i+1]
		if v.Kind == yaml.SequenceNode {
			var items []string
			for _, item := range v.Content {
				items = append(items, item.Value)
			}
			inputs[n.Content[i].Value] = strings.Join(items, ",")
			continue
		}
		inputs[n.Content[i].Value] = v.Value
	}
	return inputs
}

func (p *parser) drillClusters(d *Drill, rb *Runbook, doc *drillDoc) {
	env, err := ClusterEnv(nil)
	if err != nil {
		p.list.Addf(diag.Pos{File: p.src.Name, Line: 1, Col: 1}, "%s", err)
		return
	}
	for _, c := range doc.Expect.Clusters {
		if rb.Cluster(c.Name) == nil {
			p.list.AddHint(p.dec.Pos(c.Key), diag.DidYouMean(c.Name, rb.roles()), "there is no role %q", c.Name)
		}
		for _, n := range c.Value {
			if _, err := env.Compile(n.Value, expr.Bool); err != nil {
				p.exprErrors(n.Node, err, nil)
			}
			d.Expect.Clusters[c.Name] = append(d.Expect.Clusters[c.Name], ClusterExpect{n.Value, p.dec.Pos(n.Node)})
		}
	}
	for _, u := range doc.Expect.Untouched {
		res, err := step.ParseResource(u.Resource)
		if err != nil {
			p.list.Addf(diag.Pos{File: p.src.Name, Line: 1, Col: 1}, "untouched: %s", err)
			continue
		}
		role := u.Cluster
		if role == "" && len(rb.Clusters) > 0 {
			role = rb.Clusters[0].Role
		}
		d.Expect.Untouched = append(d.Expect.Untouched, Untouched{role, res, u.Namespace, u.Name, u.Selector})
	}
}

// ClusterEnv returns the environment of a drill's conditions: get(resource,
// name), get(resource, namespace, name) and list(resource[, selector]), which
// call look with the function's name and arguments. look may be nil where
// nothing is evaluated.
func ClusterEnv(look func(fn string, args []any) (any, error)) (*expr.Env, error) {
	var opts []expr.Option
	for _, f := range []struct {
		name   string
		params int
		result expr.Type
	}{{"get", 2, expr.Dyn}, {"get", 3, expr.Dyn}, {"list", 1, expr.List(expr.Dyn)}, {"list", 2, expr.List(expr.Dyn)}} {
		params := make([]expr.Type, f.params)
		for i := range params {
			params[i] = expr.String
		}
		opts = append(opts, expr.WithFunc(f.name, params, f.result, func(args []any) (any, error) { return look(f.name, args) }))
	}
	return expr.NewEnv(nil, opts...)
}

// CRDFile returns where a set of custom resources is to be found from the
// drill: the candidates, nearest first, relative to the catalogue.
func (d *Drill) CRDFile(set string) []string {
	var out []string
	for dir := path.Dir(d.Path); ; dir = path.Dir(dir) {
		out = append(out, path.Join(dir, "crds", set+".crd.yaml"))
		if dir == "." || dir == "/" {
			return out
		}
	}
}
