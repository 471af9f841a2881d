package runbook

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"rutter/runbooks/diag"
	"rutter/runbooks/expr"
	"rutter/runbooks/step"
	"rutter/runbooks/yamldoc"
)

var (
	nameRE = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	// idRE is what CEL can refer to and a shell variable can be made of.
	idRE = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
)

// Parse reads one runbook file. It returns a runbook, or an error that
// diag.AsList turns into all that is wrong; never both. kinds are the verbs
// that steps may use.
func Parse(src diag.Source, kinds []*step.Kind) (*Runbook, error) {
	var list diag.List
	sum := sha256.Sum256([]byte(src.Text))
	src.Text = yamldoc.Normalize(src.Text)
	root := yamldoc.Parse(src, &list)
	if root == nil {
		return nil, list.Err()
	}
	p := &parser{src: src, kinds: kinds, list: &list}
	p.dec = p.decoder()
	var doc document
	p.dec.Into(root, &doc, "the runbook")
	rb := p.runbook(&doc)
	rb.Digest = hex.EncodeToString(sum[:])
	if err := list.Err(); err != nil {
		return nil, err
	}
	return rb, nil
}

type parser struct {
	src   diag.Source
	kinds []*step.Kind
	list  *diag.List
	dec   *yamldoc.Decoder
}

// decoder returns a strict decoder that knows how steps are written.
func (p *parser) decoder() *yamldoc.Decoder {
	return &yamldoc.Decoder{Source: p.src, List: p.list, Types: map[reflect.Type]func(*yamldoc.Decoder, *yaml.Node, reflect.Value){
		reflect.TypeFor[yamlNode](): func(_ *yamldoc.Decoder, n *yaml.Node, v reflect.Value) {
			v.Set(reflect.ValueOf(yamlNode{n}))
		},
		reflect.TypeFor[stepList](): func(_ *yamldoc.Decoder, n *yaml.Node, v reflect.Value) {
			v.Set(reflect.ValueOf(p.stepList(n)))
		},
	}}
}

func (p *parser) stepList(n *yaml.Node) stepList {
	if n.Kind != yaml.SequenceNode {
		p.list.Addf(p.dec.Pos(n), "want a list of steps")
		return nil
	}
	if len(n.Content) == 0 {
		p.list.Addf(p.dec.Pos(n), "the list of steps is empty")
	}
	var steps stepList
	for _, item := range n.Content {
		if s := p.step(item); s != nil {
			steps = append(steps, s)
		}
	}
	return steps
}

// step splits the keys of a step into the common ones and its one verb.
func (p *parser) step(n *yaml.Node) *stepDoc {
	if n.Kind != yaml.MappingNode {
		p.list.AddHint(p.dec.Pos(n), "write - id: …", "want a step")
		return nil
	}
	s := &stepDoc{node: n}
	rest := *n
	rest.Content = nil
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		kind := p.kind(key.Value)
		switch {
		case kind == nil:
			rest.Content = append(rest.Content, key, value)
		case s.kind == nil:
			s.kind, s.key, s.args = kind, key, value
		case s.key.Value == key.Value:
			p.list.AddHint(p.dec.Pos(key), "drop one of them", "%q stands here a second time; the first is on line %d", key.Value, s.key.Line)
		default:
			p.list.AddHint(p.dec.Pos(key), "make it a step of its own", "a step has one verb, and this one has %s already", s.key.Value)
		}
	}
	what := "step " + keyValue(n, "id")
	p.common(&rest, &s.common, strings.TrimSpace(what), s.kind != nil)
	if s.kind == nil {
		p.list.AddHint(p.dec.Pos(n), "add one of "+strings.Join(p.verbs(), ", "), "%s has no verb", strings.TrimSpace(what))
	}
	return s
}

// common decodes the keys beside the verb. A key that is neither, in a step
// that lacks a verb, was most likely meant to be one.
func (p *parser) common(n *yaml.Node, c *common, what string, hasVerb bool) {
	known := map[string]bool{}
	for _, f := range yamldoc.Fields(reflect.TypeFor[common]()) {
		known[f.Name] = true
	}
	kept := *n
	kept.Content = nil
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if known[key.Value] || key.Kind != yaml.ScalarNode {
			kept.Content = append(kept.Content, key, n.Content[i+1])
			continue
		}
		candidates := slices.Collect(maps.Keys(known))
		if !hasVerb {
			candidates = append(candidates, p.verbs()...)
		}
		p.dec.Unknown(key, what, candidates)
	}
	p.dec.Into(&kept, c, what)
}

func keyValue(n *yaml.Node, key string) string {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1].Value
		}
	}
	return ""
}

func (p *parser) kind(name string) *step.Kind {
	for _, k := range p.kinds {
		if k.Name == name {
			return k
		}
	}
	return nil
}

func (p *parser) verbs() []string {
	names := make([]string, len(p.kinds))
	for i, k := range p.kinds {
		names[i] = k.Name
	}
	return names
}

// runbook builds the model from what was decoded, and goes on after problems
// so that all of them are found.
func (p *parser) runbook(doc *document) *Runbook {
	rb := &Runbook{
		Name: doc.Metadata.Name, Labels: doc.Metadata.Labels, Title: doc.Title, Summary: doc.Summary, Doc: doc.Doc,
		Deadline: doc.Deadline, Source: p.src, assigned: map[string]bool{},
	}
	if rb.Deadline == 0 {
		rb.Deadline = DefaultDeadline
	}
	if rb.Name != "" && !nameRE.MatchString(rb.Name) {
		p.list.AddHint(diag.Pos{File: p.src.Name, Line: 1, Col: 1}, "use lower-case letters, digits and -", "%q cannot be the name of a runbook", rb.Name)
	}
	p.clusters(rb, doc)
	p.inputs(rb, doc)
	p.requirements(rb, doc)
	c := &compiler{parser: p, rb: rb, ids: map[string]diag.Pos{}, outputs: map[string]*Step{}}
	c.runbook(doc)
	return rb
}

func (p *parser) clusters(rb *Runbook, doc *document) {
	for _, c := range doc.Clusters {
		if !idRE.MatchString(c.Name) {
			p.list.AddHint(p.dec.Pos(c.Key), "use letters, digits and _", "%q cannot be a role", c.Name)
		}
		rb.Clusters = append(rb.Clusters, Cluster{Role: c.Name, Title: c.Value.Title, Doc: c.Value.Doc, Optional: c.Value.Optional, DistinctFrom: c.Value.DistinctFrom})
	}
	for _, c := range doc.Clusters {
		if other := c.Value.DistinctFrom; other != "" && (rb.Cluster(other) == nil || other == c.Name) {
			p.list.AddHint(p.dec.Pos(c.Node), diag.DidYouMean(other, rb.roles()), "distinctFrom: there is no other role %q", other)
		}
	}
}

func (rb *Runbook) roles() []string {
	roles := make([]string, len(rb.Clusters))
	for i, c := range rb.Clusters {
		roles[i] = c.Role
	}
	return roles
}

func (p *parser) inputs(rb *Runbook, doc *document) {
	for _, d := range doc.Inputs {
		in := Input{Name: d.Name, Type: InputType(d.Value.Type), Doc: d.Value.Doc, Required: d.Value.Required, Example: d.Value.Example,
			Pattern: d.Value.Pattern, Values: d.Value.Values, Pos: p.dec.Pos(d.Key)}
		if !idRE.MatchString(in.Name) {
			p.list.AddHint(in.Pos, "use letters, digits and _", "%q cannot be an input", in.Name)
		}
		if _, err := regexp.Compile(in.Pattern); err != nil {
			p.list.Addf(in.Pos, "input %s: the pattern is no regular expression: %s", in.Name, err)
			in.Pattern = ""
		}
		if (in.Type == Enum) != (len(in.Values) > 0) {
			p.list.AddHint(in.Pos, "an enum has values, and nothing else has", "input %s: type %s with %d values", in.Name, in.Type, len(in.Values))
		}
		if r := d.Value.Choices.Resource; r != "" {
			in.Choices = p.resource(d.Node, r)
		}
		p.inputValues(&in, d.Value.Default)
		rb.Inputs = append(rb.Inputs, in)
	}
}

// inputValues checks the default and the example against the input itself.
func (p *parser) inputValues(in *Input, def *yamlNode) {
	if in.Example != "" {
		if _, err := in.Parse(in.Example); err != nil {
			p.list.Addf(in.Pos, "the example does not fit: %s", err)
		}
	}
	if def == nil {
		return
	}
	if in.Required {
		p.list.AddHint(p.dec.Pos(def.Node), "drop one of them", "input %s is required, so its default is never used", in.Name)
	}
	text := def.Value
	if def.Kind == yaml.SequenceNode {
		var items []string
		for _, item := range def.Content {
			items = append(items, item.Value)
		}
		text = strings.Join(items, ",")
	}
	v, err := in.Parse(text)
	if err != nil {
		p.list.Addf(p.dec.Pos(def.Node), "the default does not fit: %s", err)
	}
	in.Default = v
}

func (p *parser) requirements(rb *Runbook, doc *document) {
	for _, d := range doc.Requires {
		pos := diag.Pos{File: p.src.Name, Line: 1, Col: 1}
		r := Requirement{Cluster: d.Cluster, Tool: d.Tool, Optional: d.Optional, Pos: pos}
		switch {
		case (d.Resource == "") == (d.Tool == ""):
			p.list.Addf(pos, "requires: each entry names a resource or a tool")
		case d.Resource != "":
			if rb.Cluster(d.Cluster) == nil {
				p.list.AddHint(pos, diag.DidYouMean(d.Cluster, rb.roles()), "requires: there is no role %q", d.Cluster)
			}
			res, err := step.ParseResource(d.Resource)
			if err != nil {
				p.list.Addf(pos, "requires: %s", err)
			}
			r.Resource = res
		}
		rb.Requires = append(rb.Requires, r)
	}
}

func (p *parser) resource(n *yaml.Node, s string) step.Resource {
	res, err := step.ParseResource(s)
	if err != nil {
		p.list.Addf(p.dec.Pos(n), "%s", err)
	}
	return res
}

// exprErrors adds what is wrong with an expression, at its place in the scalar.
func (p *parser) exprErrors(n *yaml.Node, err error, explain func(ref string) (msg, hint string)) {
	errs, ok := err.(expr.Errors)
	if !ok {
		p.list.Addf(p.dec.Pos(n), "%s", err)
		return
	}
	for _, e := range errs {
		msg, hint := e.Message, e.Hint
		if e.Ref != "" && explain != nil {
			if m, h := explain(e.Ref); m != "" {
				msg, hint = m, h
			}
		}
		p.list.AddHint(p.dec.At(n, e.Offset), hint, "%s", msg)
	}
}
