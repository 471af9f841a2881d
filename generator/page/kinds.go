package page

import (
	"html/template"
	"io"

	"rutter/runbooks/step"
)

// Home is the first page: what is broken, what to run, where to read on.
type Home struct {
	Frame
	Heading  string
	Body     template.HTML
	Topics   []SymptomGroup
	Runbooks []Card
	Guides   []Guide
}

// SymptomGroup is the symptoms of one topic.
type SymptomGroup struct {
	Title    string
	Symptoms []Symptom
}

// Symptom is something that a person sees, and the page that explains it.
type Symptom struct{ Text, Answer, Href string }

// Guide is a page of the handbook.
type Guide struct{ Title, Summary, Href string }

// Card is a runbook in a list.
type Card struct {
	Title, Summary, Href, Facts string
	Effect                      Effect
}

// Effect is how an effect is written: a word, and a class that colours it.
type Effect struct{ Word, Class string }

// NewEffect returns how an effect is written.
func NewEffect(e step.Effect) Effect {
	class := [...]string{step.Reads: "reads", step.RunsHere: "here", step.Changes: "changes", step.Destroys: "destroys"}[e]
	return Effect{Word: e.String(), Class: class}
}

// worse returns the more dangerous of two effects.
func worse(a, b Effect) Effect {
	ea, _ := step.ParseEffect(a.Word)
	eb, _ := step.ParseEffect(b.Word)
	if eb > ea {
		return b
	}
	return a
}

// Home writes the first page.
func (t *Theme) Home(w io.Writer, d Home) error { return t.execute(w, "home", d) }

// FAQ is all questions with their answers on one page.
type FAQ struct {
	Frame
	Body   template.HTML
	Topics []FAQTopic
}

// FAQTopic is a part of the FAQ.
type FAQTopic struct {
	Title, ID string
	Questions []FAQEntry
}

// FAQEntry is a question on the page of all questions.
type FAQEntry struct {
	Title, ID, Href string
	Body            template.HTML
	Runbook         *Card
}

// FAQ writes the page of all questions.
func (t *Theme) FAQ(w io.Writer, d FAQ) error { return t.execute(w, "faq", d) }

// Question is one question on a page of its own.
type Question struct {
	Frame
	Symptoms []string
	Runbook  *Card
	Body     template.HTML
}

// Question writes the page of one question.
func (t *Theme) Question(w io.Writer, d Question) error { return t.execute(w, "question", d) }

// Article is a page of prose, such as one of the handbook.
type Article struct {
	Frame
	Body template.HTML
}

// Article writes a page of prose.
func (t *Theme) Article(w io.Writer, d Article) error { return t.execute(w, "article", d) }

// Catalogue lists the runbooks.
type Catalogue struct {
	Frame
	Groups []CardGroup
}

// CardGroup is the runbooks of one topic.
type CardGroup struct {
	Title, ID string
	Cards     []Card
}

// Catalogue writes the list of runbooks.
func (t *Theme) Catalogue(w io.Writer, d Catalogue) error { return t.execute(w, "catalogue", d) }

// NotFound writes the page for what is not there. A server sends it for any
// address, so its Frame should have a Base.
func (t *Theme) NotFound(w io.Writer, f Frame) error { return t.execute(w, "notfound", f) }

// Runbook writes the page of a runbook.
func (t *Theme) Runbook(w io.Writer, d Runbook) error { return t.execute(w, "runbook", d) }

// Verbs writes the reference of the verbs.
func (t *Theme) Verbs(w io.Writer, d Verbs) error { return t.execute(w, "verbs", d) }
