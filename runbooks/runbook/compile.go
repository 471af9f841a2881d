package runbook

import (
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"rutter/runbooks/diag"
	"rutter/runbooks/expr"
	"rutter/runbooks/step"
)

// compiler turns step documents into steps: it checks references and compiles
// every expression against what is known where it stands.
type compiler struct {
	*parser
	rb  *Runbook
	ids map[string]diag.Pos
	// outputs maps step.name to the step that sets it, for all steps, so that
	// a reference to a later one can be told from one to nothing.
	outputs map[string]*Step
}

// scope is what the expressions of a step can refer to.
type scope struct {
	env *expr.Env
	// visible are the steps whose outputs are declared.
	visible map[string]*Step
	// finally is set where a step may refer to outputs that were never made.
	finally bool
}

func (c *compiler) runbook(doc *document) {
	var vars []expr.Var
	for _, in := range c.rb.Inputs {
		vars = append(vars, expr.Var{Name: "inputs." + in.Name, Type: in.Type.exprType(), Doc: in.Doc})
	}
	for _, cl := range c.rb.Clusters {
		vars = append(vars,
			expr.Var{Name: "clusters." + cl.Role + ".context", Type: expr.String, Doc: "the kubeconfig context bound to " + cl.Role},
			expr.Var{Name: "clusters." + cl.Role + ".bound", Type: expr.Bool, Doc: "whether a context is bound to " + cl.Role})
	}
	env, err := expr.NewEnv(vars)
	if err != nil {
		c.list.Addf(diag.Pos{File: c.src.Name, Line: 1, Col: 1}, "%s", err)
		return
	}
	c.declare(doc.Steps)
	c.declare(doc.Finally)
	sc := &scope{env: env, visible: map[string]*Step{}}
	c.rb.Steps = c.steps(doc.Steps, sc)
	sc.finally = true
	c.rb.Finally = c.steps(doc.Finally, sc)
	c.markAssigned()
}

// declare notes every id and output, and reports ids used twice.
func (c *compiler) declare(docs stepList) {
	for _, d := range docs {
		pos := c.dec.Pos(d.node)
		switch first, taken := c.ids[d.ID]; {
		case d.ID == "":
		case !idRE.MatchString(d.ID):
			c.list.AddHint(pos, "use letters, digits and _", "%q cannot be the id of a step", d.ID)
		case taken:
			c.list.AddHint(pos, "give it another id", "the id %q is taken by the step on line %d", d.ID, first.Line)
		default:
			c.ids[d.ID] = pos
		}
		c.declare(d.Rescue)
	}
}

// steps compiles a list in order; each step sees the outputs of those before.
func (c *compiler) steps(docs stepList, sc *scope) []*Step {
	var steps []*Step
	for _, d := range docs {
		if s := c.step(d, sc); s != nil {
			steps = append(steps, s)
		}
	}
	return steps
}

func (c *compiler) step(d *stepDoc, sc *scope) *Step {
	s := &Step{ID: d.ID, Title: d.Title, Doc: d.Doc, Phase: d.Phase, Kind: d.kind, Role: d.Cluster, Timeout: d.Timeout, Pos: c.dec.Pos(d.node),
		runbook: c.rb, args: d.args, strings: map[*yaml.Node]*expr.Template{}, conditions: map[*yaml.Node]*expr.Program{}}
	if s.Title == "" {
		s.Title = s.ID
	}
	if s.Timeout == 0 {
		s.Timeout = DefaultTimeout
	}
	if d.kind == nil {
		return nil
	}
	c.role(s)
	env := c.with(sc.env, s, expr.Var{Name: "cluster.role", Type: expr.String}, expr.Var{Name: "cluster.context", Type: expr.String})
	at := &place{c: c, step: s, scope: sc, env: env}
	if d.If != nil {
		s.If = at.program(d.If.Node, expr.Bool)
	}
	if d.Approve != "" {
		s.Approve = at.template(child(d.node, "approve"), expr.String)
	}
	c.forEach(s, d, at)
	c.arguments(s, at)
	if s.Each != nil {
		at.env = env // the item is known to the arguments only
	}
	c.results(s, d, at)
	rescue := &scope{env: sc.env, visible: cloneVisible(sc.visible), finally: sc.finally}
	s.Rescue = c.steps(d.Rescue, rescue)
	c.publish(s, sc)
	return s
}

// forEach declares the item for the arguments that follow.
func (c *compiler) forEach(s *Step, d *stepDoc, at *place) {
	if d.ForEach == nil || d.ForEach.Items == nil || d.ForEach.As == "" {
		return
	}
	n := child(d.node, "forEach")
	switch as := d.ForEach.As; {
	case !idRE.MatchString(as):
		c.list.AddHint(c.dec.Pos(child(n, "as")), "use letters, digits and _", "%q cannot be the name of an item", as)
	case slices.Contains([]string{"inputs", "steps", "cluster", "clusters", "result"}, as):
		c.list.AddHint(c.dec.Pos(child(n, "as")), "use another name", "%q means something else in expressions", as)
	case s.Kind.Named:
		c.list.AddHint(c.dec.Pos(n), "use .map(…) in the expression", "%s is not repeated", s.Kind.Name)
	default:
		s.Each = &ForEach{Items: at.program(d.ForEach.Items.Node, expr.List(expr.Dyn)), As: as}
		at.env = c.with(at.env, s, expr.Var{Name: as, Type: expr.Dyn, Doc: "the item at hand"})
	}
}

func cloneVisible(m map[string]*Step) map[string]*Step {
	out := make(map[string]*Step, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// role gives a step its cluster: the one it names, or the only one.
func (c *compiler) role(s *Step) {
	roles := c.rb.roles()
	switch {
	case s.Role == "" && s.Kind.NoCluster:
	case s.Role == "" && len(roles) == 1:
		s.Role = roles[0]
	case s.Role == "":
		c.list.AddHint(s.Pos, diag.DidYouMean("", roles), "step %s: the key \"cluster\" is missing", s.ID)
	case !slices.Contains(roles, s.Role):
		c.list.AddHint(s.Pos, diag.DidYouMean(s.Role, roles), "step %s: there is no role %q", s.ID, s.Role)
	}
}

func (c *compiler) with(env *expr.Env, s *Step, vars ...expr.Var) *expr.Env {
	out, err := env.With(vars...)
	if err != nil {
		c.list.Addf(s.Pos, "step %s: %s", s.ID, err)
		return env
	}
	return out
}

// results compiles what the step makes of its result.
func (c *compiler) results(s *Step, d *stepDoc, at *place) {
	result := *at
	result.env = c.with(at.env, s, expr.Var{Name: "result", Type: expr.Dyn, Doc: s.Kind.Result})
	var own []expr.Var
	for _, o := range d.Outputs {
		if !idRE.MatchString(o.Name) {
			c.list.AddHint(c.dec.Pos(o.Key), "use letters, digits and _", "%q cannot be an output", o.Name)
			continue
		}
		if t := result.template(o.Value.Node, expr.Dyn); t != nil {
			s.Outputs = append(s.Outputs, Output{o.Name, t, c.dec.Pos(o.Key)})
			own = append(own, expr.Var{Name: "steps." + s.ID + "." + o.Name, Type: t.Type()})
		}
	}
	result.env = c.with(result.env, s, own...)
	result.own = s.ID
	for i, e := range d.Expect {
		s.Expect = append(s.Expect, c.expect(s, e, itemNode(d.node, "expect", i), &result)...)
	}
}

func (c *compiler) expect(s *Step, e expectDoc, n *yaml.Node, at *place) []Expect {
	var level Level
	var cond *yaml.Node
	for _, l := range []struct {
		level Level
		node  *yamlNode
	}{{Fail, e.Fail}, {Warn, e.Warn}, {Pass, e.Pass}} {
		if l.node == nil {
			continue
		}
		if cond != nil {
			c.list.AddHint(c.dec.Pos(l.node.Node), "make it an entry of its own", "an expectation is one of fail, warn and pass")
			continue
		}
		level, cond = l.level, l.node.Node
	}
	if cond == nil {
		c.list.AddHint(c.dec.Pos(n), "add fail: …, warn: … or pass: … with a condition", "step %s: an expectation without a condition", s.ID)
		return nil
	}
	x := Expect{Level: level, Pos: c.dec.Pos(cond), Cond: at.program(cond, expr.Bool)}
	if e.Message != nil {
		x.Message = at.template(e.Message.Node, expr.String)
	}
	if e.Fix != nil {
		x.Fix = at.template(e.Fix.Node, expr.String)
	}
	return []Expect{x}
}

// publish makes the outputs of a step visible to those after it.
func (c *compiler) publish(s *Step, sc *scope) {
	if s.ID == "" {
		return
	}
	var vars []expr.Var
	for _, o := range s.Outputs {
		vars = append(vars, expr.Var{Name: "steps." + s.ID + "." + o.Name, Type: o.Value.Type()})
		c.outputs[s.ID+"."+o.Name] = s
	}
	sc.visible[s.ID] = s
	if len(vars) > 0 {
		sc.env = c.with(sc.env, s, vars...)
	}
}

// markAssigned finds the outputs that commands on the page refer to.
func (c *compiler) markAssigned() {
	c.rb.Walk(func(s *Step, _ int) {
		for _, ref := range s.needs {
			c.rb.assigned[ref] = true
		}
	})
}

// child returns the value of a key of a mapping.
func child(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return n
}

func itemNode(n *yaml.Node, key string, i int) *yaml.Node {
	if list := child(n, key); list.Kind == yaml.SequenceNode && i < len(list.Content) {
		return list.Content[i]
	}
	return n
}

// arguments compiles the expressions below the verb, and decodes it once with
// placeholders, which finds all that is wrong with its keys.
func (c *compiler) arguments(s *Step, at *place) {
	result := *at
	result.env = c.with(at.env, s, expr.Var{Name: "result", Type: expr.Dyn})
	b := &binder{step: s, list: c.list, src: c.src}
	b.text = func(n *yaml.Node, want reflect.Type) (any, bool) {
		t := s.strings[n]
		if t == nil {
			t = at.template(n, wantType(want))
			if t == nil {
				return nil, true
			}
			s.strings[n] = t
		}
		if !t.IsLiteral() {
			for _, r := range t.Refs() {
				if ref, ok := strings.CutPrefix(r.Name, "steps."); ok && !slices.Contains(s.needs, ref) {
					s.needs = append(s.needs, ref)
				}
			}
		}
		return s.symbolic(t), true
	}
	b.cond = func(n *yaml.Node) step.Condition {
		p := result.program(n, expr.Bool)
		if p == nil {
			return step.Condition{}
		}
		s.conditions[n] = p
		return step.Condition{Source: p.Source(), Equals: equality(p.Source())}
	}
	before := len(*c.list)
	s.page = b.action()
	// Arguments that could not be read say nothing about how they fit together.
	if checker, ok := s.page.(step.Checker); ok && len(*c.list) == before {
		for _, problem := range checker.Check() {
			pos := c.dec.Pos(s.args)
			if problem.Field != "" && s.args.Kind == yaml.MappingNode {
				pos = c.dec.Pos(child(s.args, problem.Field))
			}
			c.list.AddHint(pos, problem.Hint, "%s: %s", s.Kind.Name, problem.Message)
		}
	}
	if s.Kind.Named && s.args.Kind == yaml.MappingNode {
		c.named(s, at)
	}
}

// named turns the arguments of a verb such as set into outputs.
func (c *compiler) named(s *Step, at *place) {
	for i := 0; i+1 < len(s.args.Content); i += 2 {
		key, n := s.args.Content[i], s.args.Content[i+1]
		if !idRE.MatchString(key.Value) {
			c.list.AddHint(c.dec.Pos(key), "use letters, digits and _", "%q cannot be an output", key.Value)
			continue
		}
		if t := s.strings[n]; t != nil {
			s.Outputs = append(s.Outputs, Output{key.Value, t, c.dec.Pos(key)})
		} else if n.Kind == yaml.ScalarNode {
			if t, err := at.env.Template("${"+n.Value+"}", expr.Dyn); err == nil {
				s.Outputs = append(s.Outputs, Output{key.Value, t, c.dec.Pos(key)})
			}
		} else {
			c.list.AddHint(c.dec.Pos(n), "write it as ${…}", "%s: want one value, not a tree", key.Value)
		}
	}
}

func wantType(t reflect.Type) expr.Type {
	switch t {
	case reflect.TypeFor[string]():
		return expr.String
	case reflect.TypeFor[[]string]():
		return expr.Dyn
	}
	return expr.Dyn
}
