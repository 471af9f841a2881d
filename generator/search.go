package generator

import (
	"strings"

	"rutter/generator/markdown"
	"rutter/generator/search"
	"rutter/runbooks/expr"
	"rutter/runbooks/runbook"
)

// searchPath is where the pages load the index from.
const searchPath = "search/index.js"

// searchDocs collects what can be found.
type searchDocs struct{ docs []search.Doc }

// add makes a page and each of its sections findable.
func (s *searchDocs) add(out string, m meta, kind string, d *markdown.Document) {
	keywords := strings.Join(append(append([]string{}, m.Symptoms...), m.Keywords...), "\n")
	for i, sec := range d.Sections {
		if i == 0 {
			s.docs = append(s.docs, search.Doc{
				Title: m.Title, Kind: kind, Href: out, Text: strings.TrimSpace(m.Summary + "\n" + sec.Text), Keywords: keywords,
			})
			continue
		}
		s.docs = append(s.docs, search.Doc{Title: sec.Title, Page: m.Title, Kind: kind, Href: out + "#" + sec.ID, Text: sec.Text})
	}
}

func (s *searchDocs) one(title, kind, href, text string) {
	s.docs = append(s.docs, search.Doc{Title: title, Kind: kind, Href: href, Text: text})
}

// searchRunbook makes a runbook and each of its steps findable.
func (b *builder) searchRunbook(rb *runbook.Runbook, out string) {
	doc, _ := markdown.Convert(markdown.Source{Text: rb.Doc}, markdown.Options{})
	b.search.docs = append(b.search.docs, search.Doc{
		Title: rb.Title, Kind: "Runbook", Href: out, Text: rb.Summary + "\n" + allText(doc), Keywords: rb.Name,
	})
	rb.Walk(func(s *runbook.Step, _ int) {
		doc, _ := markdown.Convert(markdown.Source{Text: s.Doc}, markdown.Options{})
		text := []string{allText(doc)}
		for _, e := range s.Expect {
			text = append(text, words(e.Message), words(e.Fix))
		}
		for _, l := range s.Lines() {
			text = append(text, strings.Join(l.Words, " "))
		}
		title := s.Title
		if title == "" {
			title = s.ID
		}
		b.search.docs = append(b.search.docs, search.Doc{
			Title: title, Page: rb.Title, Kind: "Step", Href: out + "#step-" + s.ID, Text: strings.Join(text, "\n"),
		})
	})
}

// words returns the text of a template without its expressions.
func words(t *expr.Template) string {
	if t == nil {
		return ""
	}
	none := func(string) string { return "" }
	return t.Symbolic(expr.Marker{Ref: none, Formula: none})
}

func allText(d *markdown.Document) string {
	var parts []string
	for _, s := range d.Sections {
		parts = append(parts, s.Title, s.Text)
	}
	return strings.TrimSpace(strings.Join(parts, "\n"))
}

// index writes the search index.
func (b *builder) index() error {
	js, err := search.Build(b.search.docs).Script()
	if err != nil {
		return err
	}
	b.tree[searchPath] = js
	return nil
}
