package page

import (
	"cmp"
	"fmt"
	"html/template"
	"path"
	"strings"
	"time"

	"rutter/runbooks/runbook"
	"rutter/runbooks/step"
)

// Runbook is a runbook's page.
type Runbook struct {
	Frame
	Name        string
	Effect      Effect
	Facts       []string
	Doc         template.HTML
	Fields      []InputField
	Run         []Token
	RunOptional []OptionalTokens
	Flow        []FlowDrawing
	Phases      []Phase
	Finally     []Step
	Undo        []string
	Needs       []string
	Grants      []Grant
	File        string // the name of the source
	SourcePath  string // the page that shows it
	FilePath    string // the file itself
}

// InputField is something the reader fills in: an input, or the context of a
// cluster.
type InputField struct {
	Var         string // the name by which tokens refer to it
	Name, Label string
	Help        string
	Type        string // text or checkbox
	Placeholder string
	Pattern     string
	Default     string
	Unset       string // what an unticked checkbox stands for
	Values      []string
	Required    bool
	Secret      bool
	Checked     bool
}

// OptionalTokens are a part of the run line that shows once it is filled in.
type OptionalTokens struct {
	If     string
	Tokens []Token
}

// Markup is what a runbook's page needs from package markdown.
type Markup struct {
	Prose     Prose
	Highlight func(text, lang, title string) template.HTML
}

// NewRunbook returns the page of rb, all but its Frame's place in the site.
func NewRunbook(rb *runbook.Runbook, m Markup) Runbook {
	b := builder{rb: rb, markup: m}
	d := Runbook{
		Frame:  Frame{Title: rb.Title, Lead: rb.Summary, Description: rb.Summary},
		Name:   name(rb),
		Effect: NewEffect(rb.Effect()),
		Facts:  facts(rb),
		Doc:    m.Prose(rb.Doc),
		File:   path.Base(rb.Source.Name),
		Needs:  needs(rb),
		Grants: b.grants(),
		Undo:   undo(rb),
	}
	d.Fields = b.fields()
	d.Run, d.RunOptional = b.runLine()
	d.Phases = phases(b.steps(rb.Steps))
	d.Finally = b.steps(rb.Finally)
	d.Flow = flow(d.Phases, d.Finally)
	d.TOC = outline(d)
	return d
}

// NewCard returns rb as it stands in a list; the caller adds the Href.
func NewCard(rb *runbook.Runbook) Card {
	return Card{Title: rb.Title, Summary: rb.Summary, Effect: NewEffect(rb.Effect()), Facts: strings.Join(facts(rb), " · ")}
}

// name is what the reader types to run it.
func name(rb *runbook.Runbook) string {
	if rb.Path != "" {
		return rb.Path
	}
	return rb.Name
}

func facts(rb *runbook.Runbook) []string {
	fs := []string{count(len(rb.Steps), "step")}
	if n := len(rb.Clusters); n > 1 {
		fs = append(fs, count(n, "cluster"))
	}
	if rb.Deadline > 0 {
		fs = append(fs, "at most "+duration(rb.Deadline))
	}
	return fs
}

// needs says what must be there before a run starts, beside permissions.
func needs(rb *runbook.Runbook) []string {
	var out []string
	for _, r := range rb.Requires {
		s := "The program " + r.Tool + " on your machine"
		if r.Tool == "" {
			s = "A cluster that serves " + r.Resource.String()
			if len(rb.Clusters) > 1 {
				s = "A cluster " + r.Cluster + " that serves " + r.Resource.String()
			}
		}
		if r.Optional {
			s += ", if there is one"
		}
		out = append(out, s+".")
	}
	return out
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func duration(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return count(int(d/time.Hour), "hour")
	case d%time.Minute == 0:
		return count(int(d/time.Minute), "minute")
	}
	return d.String()
}

// undo says what remains and what can be taken back, which follows from the
// effects of the steps.
func undo(rb *runbook.Runbook) []string {
	var s []string
	switch rb.Effect() {
	case step.Reads:
		return []string{"Nothing to clean up: the runbook only reads."}
	case step.RunsHere:
		s = append(s, "It runs programs on your machine, which may leave files there; the clusters stay as they were.")
	case step.Changes:
		s = append(s, "It changes objects. The journal of a run keeps each one as it was before.")
	case step.Destroys:
		s = append(s, "What it deletes is not coming back by itself. The journal of a run keeps every object as it was before it was deleted; by hand, save them first with kubectl get -o yaml.")
	}
	if len(rb.Finally) > 0 {
		s = append(s, "The last steps run whatever happened before, also after an interruption.")
	}
	return s
}

func outline(d Runbook) []Heading {
	toc := []Heading{{ID: "fill", Title: "Fill in once"}, {ID: "flow", Title: "How it goes"}, {ID: "steps", Title: "Steps"}}
	for _, p := range d.Phases {
		if len(d.Phases) > 1 {
			toc = append(toc, Heading{ID: cmp.Or(p.Anchor, p.Steps[0].Anchor), Title: cmp.Or(p.Title, p.Steps[0].Title), Deep: true})
			continue
		}
		for _, s := range p.Steps {
			toc = append(toc, Heading{ID: s.Anchor, Title: s.Title, Deep: true})
		}
	}
	if len(d.Finally) > 0 {
		toc = append(toc, Heading{ID: "finally", Title: "In the end"})
	}
	return append(toc,
		Heading{ID: "cleanup", Title: "Cleaning up"}, Heading{ID: "permissions", Title: "What it needs"}, Heading{ID: "source", Title: "The source"})
}

// builder makes the parts of one runbook's page.
type builder struct {
	rb     *runbook.Runbook
	markup Markup
}

// The names by which tokens and fields find each other.
func inputVar(name string) string   { return "i:" + name }
func contextVar(role string) string { return "c:" + role }

func (b *builder) fields() []InputField {
	var fields, ticks []InputField
	for _, in := range b.rb.Inputs {
		f := InputField{
			Var: inputVar(in.Name), Name: in.Name, Label: strings.TrimSuffix(in.Doc, "."), Type: "text",
			Placeholder: in.Example, Pattern: in.Pattern, Values: in.Values,
			Required: in.Required, Secret: in.Type == runbook.Secret,
		}
		if in.Default != nil {
			f.Default = fmt.Sprint(in.Default)
			f.Placeholder = f.Default
		}
		if in.Type == runbook.Boolean {
			f.Type, f.Unset, f.Checked = "checkbox", "false", f.Default == "true"
		}
		if f.Secret {
			f.Help = "Secret: a run asks for it, no page does."
		}
		if in.Choices.Plural != "" {
			f.Help = "kubectl get " + in.Choices.String() + " lists them."
		}
		if f.Type == "checkbox" {
			ticks = append(ticks, f)
			continue
		}
		fields = append(fields, f)
	}
	for _, c := range b.rb.Clusters {
		fields = append(fields, InputField{
			Var: contextVar(c.Role), Name: c.Role, Label: "Context of " + lowerFirst(c.Title), Type: "text",
			Placeholder: c.Role + "-admin", Required: !c.Optional, Help: c.Doc,
		})
	}
	return append(fields, ticks...)
}

func lowerFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}

// runLine returns the command that runs the runbook, and the parts of it that
// show only when the reader fills them in. Its quoting is package step's.
func (b *builder) runLine() ([]Token, []OptionalTokens) {
	words := []string{"rutter", "run", name(b.rb)}
	var optional []OptionalTokens
	add := func(required bool, v, flag, arg string) {
		if required {
			words = append(words, flag, arg)
			return
		}
		parts := step.Tokens([]step.Line{{Words: []string{flag, arg}}}, "")
		optional = append(optional, OptionalTokens{If: v, Tokens: append([]Token{{Text: " "}}, tokens(parts)...)})
	}
	for _, c := range b.rb.Clusters {
		add(!c.Optional, contextVar(c.Role), "--cluster", c.Role+"="+step.Mark(step.ContextMark, c.Role))
	}
	for _, in := range b.rb.Inputs {
		if in.Type == runbook.Secret {
			continue
		}
		add(in.Required, inputVar(in.Name), "-i", in.Name+"="+step.Mark(step.InputMark, in.Name))
	}
	return unbroken(tokens(step.Tokens([]step.Line{{Words: words}}, ""))), optional
}

// unbroken joins a command that was broken into lines.
func unbroken(ts []Token) []Token {
	for i := range ts {
		ts[i].Text = strings.ReplaceAll(ts[i].Text, " \\\n  ", " ")
	}
	return ts
}
