package page

import (
	"html/template"
	"regexp"
	"strconv"
	"strings"

	"rutter/runbooks/expr"
	"rutter/runbooks/runbook"
	"rutter/runbooks/step"
)

// Step is a step on a runbook's page.
type Step struct {
	ID, Anchor, Title string
	Verb              string
	Role              string
	Phase             string
	Effect            Effect
	If                string
	Each              string // the items of a repeated step
	As                string
	Doc               template.HTML
	Ask               template.HTML
	Formulas          []Formula
	Lines             [][]Token
	Outcomes          []Outcome
	Rescue            []Step
}

// Phase is a stretch of steps under one heading. A runbook without phases is
// one stretch without a title.
type Phase struct {
	Title, Anchor string
	Effect        Effect
	Steps         []Step
	Follows       bool // another phase: its steps are counted on
}

// phases divides steps at those that begin a phase.
func phases(steps []Step) []Phase {
	var out []Phase
	for _, s := range steps {
		if len(out) == 0 || s.Phase != "" {
			p := Phase{Title: s.Phase, Follows: len(out) > 0, Effect: s.Effect}
			if s.Phase != "" {
				p.Anchor = "phase-" + s.ID
			}
			out = append(out, p)
		}
		p := &out[len(out)-1]
		p.Steps = append(p.Steps, s)
		p.Effect = worse(p.Effect, s.Effect)
	}
	return out
}

// Formula is a value that a step computes, as it is written.
type Formula struct{ Name, Source string }

// Outcome is an expectation: if you see this, it means that.
type Outcome struct {
	Class, Mark, Word string
	Message, Fix      template.HTML
	Condition         string
}

func (b *builder) steps(steps []*runbook.Step) []Step {
	var out []Step
	for _, s := range steps {
		out = append(out, b.step(s))
	}
	return out
}

func (b *builder) step(s *runbook.Step) Step {
	d := Step{
		ID: s.ID, Anchor: "step-" + s.ID, Title: s.Title, Verb: s.Kind.Name, Role: s.Role, Phase: s.Phase,
		Effect: NewEffect(s.Effect()), Rescue: b.steps(s.Rescue),
	}
	if d.Title == "" {
		d.Title = s.ID
	}
	if s.Each != nil {
		d.Each, d.As = s.Each.Items.Source(), s.Each.As
	}
	if s.If != nil {
		d.If = s.If.Source()
	}
	if s.Doc != "" {
		d.Doc = b.markup.Prose(s.Doc)
	}
	if s.Approve != nil {
		d.Ask = b.sentence(s.Approve)
	}
	d.Lines = lines(tokens(step.Tokens(s.Lines(), s.Context())))
	if s.Kind.Named {
		for _, o := range s.Outputs {
			d.Formulas = append(d.Formulas, Formula{o.Name, o.Value.Source()})
		}
	}
	for _, e := range s.Expect {
		d.Outcomes = append(d.Outcomes, b.outcome(e))
	}
	return d
}

func (b *builder) outcome(e runbook.Expect) Outcome {
	o := Outcome{Class: string(e.Level), Condition: e.Cond.Source(), Message: b.sentence(e.Message)}
	switch e.Level {
	case runbook.Fail:
		o.Mark, o.Word = "✕", "stops here"
	case runbook.Warn:
		o.Mark, o.Word = "!", "mind"
	case runbook.Pass:
		o.Mark, o.Word = "✓", "as it should be"
	}
	if e.Fix != nil {
		o.Fix = b.sentence(e.Fix)
	}
	return o
}

// sentence renders a text with expressions as prose: what the reader fills in
// follows the form, what only a run knows is shown as its formula.
func (b *builder) sentence(t *expr.Template) template.HTML {
	text := t.Symbolic(expr.Marker{Ref: mark, Formula: func(src string) string { return step.Mark(step.FormulaMark, src) }})
	var md strings.Builder
	var values []Token
	for _, p := range step.Parts(text) {
		if p.Kind == 0 {
			md.WriteString(p.Text)
			continue
		}
		// The number stands for the value until Markdown has been read, so
		// that no value is taken for markup.
		md.WriteString("\ue002" + strconv.Itoa(len(values)) + "\ue003")
		values = append(values, proseToken(p))
	}
	html := strings.TrimSpace(string(b.markup.Prose(md.String())))
	if inner, ok := strings.CutPrefix(html, "<p>"); ok && strings.Count(html, "<p>") == 1 {
		html = strings.TrimSuffix(inner, "</p>")
	}
	return template.HTML(numberRE.ReplaceAllStringFunc(html, func(m string) string {
		n, err := strconv.Atoi(numberRE.FindStringSubmatch(m)[1])
		if err != nil || n >= len(values) {
			return ""
		}
		return values[n].html()
	}))
}

var numberRE = regexp.MustCompile("\ue002([0-9]+)\ue003")

func proseToken(p step.Part) Token {
	switch p.Kind {
	case step.InputMark:
		return Token{Text: p.Text, Var: inputVar(p.Name), Quote: "h"}
	case step.ContextMark:
		return Token{Text: p.Text, Var: contextVar(p.Name), Quote: "h"}
	case step.FormulaMark:
		return Token{Text: p.Name, Class: "f"}
	}
	return Token{Text: p.Text, Class: "o"}
}

func (t Token) html() string {
	text := template.HTMLEscapeString(t.Text)
	if t.Var != "" {
		return `<span class="v" data-var="` + template.HTMLEscapeString(t.Var) + `" data-quote="` + t.Quote + `">` + text + `</span>`
	}
	return `<code class="` + t.Class + `">` + text + `</code>`
}

// mark returns the marker for a variable in prose.
func mark(name string) string {
	if in, ok := strings.CutPrefix(name, "inputs."); ok {
		return step.Mark(step.InputMark, in)
	}
	if out, ok := strings.CutPrefix(name, "steps."); ok {
		return step.Mark(step.OutputMark, out)
	}
	return step.Mark(step.FormulaMark, name)
}
