package generator

import (
	"html/template"
	"io"
	"path"
	"strings"

	"rutter/generator/markdown"
	"rutter/generator/page"
	"rutter/runbooks/diag"
	"rutter/runbooks/runbook"
)

// runbookPath returns the page of a runbook by its path in the catalogue.
func runbookPath(p string) string { return "runbooks/" + p + "/index.html" }

// prose returns what renders the Markdown inside of a YAML file. What is wrong
// with it is reported where its line stands in the file, or for the whole file
// if the same line stands there twice.
func (b *builder) prose(src diag.Source, out string) page.Prose {
	ids := &markdown.IDs{}
	return func(text string) template.HTML {
		in := diag.Source{Text: text}
		place := func(pos diag.Pos) diag.Pos { return locate(src, in.Line(pos.Line), pos.Col) }
		d := b.convert(markdown.Source{File: src.Name, Text: text}, out, markdown.Options{IDs: ids, Shift: 2}, place)
		return trusted(d.HTML)
	}
}

// locate finds the line of a file that holds a line of text and no other does.
func locate(src diag.Source, text string, col int) diag.Pos {
	text = strings.TrimSpace(text)
	found := diag.Pos{File: src.Name}
	n := 0
	for line := range strings.Lines(src.Text) {
		n++
		i := strings.Index(line, text)
		if i < 0 || text == "" {
			continue
		}
		if found.Line > 0 {
			return diag.Pos{File: src.Name}
		}
		found.Line, found.Col = n, diag.Col(line, i)+max(col, 1)-1
	}
	return found
}

func (b *builder) runbookPages() error {
	for i, rb := range b.runbooks {
		out := runbookPath(rb.Path)
		d := page.NewRunbook(rb, page.Markup{
			Prose:     b.prose(diag.Source{Name: path.Join(runbooksDir, rb.Path+".yaml"), Text: rb.Source.Text}, out),
			Highlight: highlight,
		})
		d.Site, d.Path = b.site, out
		dir := path.Dir(out)
		d.FilePath, d.SourcePath = dir+"/"+d.File, dir+"/source/index.html"
		d.Crumbs = []page.Link{{Title: "Runbooks", Path: cataloguePath}}
		if group := groupName(rb); group != "" {
			d.Crumbs = append(d.Crumbs, page.Link{Title: group, Path: cataloguePath + "#" + markdown.Slug(group)})
		}
		if i > 0 {
			d.Prev = &page.Link{Title: b.runbooks[i-1].Title, Path: runbookPath(b.runbooks[i-1].Path)}
		}
		if i+1 < len(b.runbooks) {
			d.Next = &page.Link{Title: b.runbooks[i+1].Title, Path: runbookPath(b.runbooks[i+1].Path)}
		}
		b.searchRunbook(rb, out)
		if err := b.put(out, func(w io.Writer) error { return b.theme.Runbook(w, d) }); err != nil {
			return err
		}
		if err := b.runbookSource(rb, d); err != nil {
			return err
		}
	}
	return nil
}

// runbookSource puts the file of a runbook beside its page, to read and to take
// along: it is as long as the page, and few readers want it.
func (b *builder) runbookSource(rb *runbook.Runbook, d page.Runbook) error {
	b.tree[d.FilePath] = []byte(rb.Source.Text)
	a := page.Article{
		Frame: b.frame(d.SourcePath, rb.Title+": the source", "What the page and the run are made from."),
		Body:  highlight(rb.Source.Text, "yaml", d.File),
	}
	a.Crumbs = append(append(a.Crumbs, d.Crumbs...), page.Link{Title: rb.Title, Path: d.Path})
	return b.put(d.SourcePath, func(w io.Writer) error { return b.theme.Article(w, a) })
}

// groupName is the topic of a runbook, as a heading: by its labels, else by
// where it stands.
func groupName(rb *runbook.Runbook) string {
	product, topic := rb.Labels["product"], rb.Labels["topic"]
	if product == "" && topic == "" {
		dir := path.Dir(rb.Path)
		if dir == "." {
			return "Other"
		}
		return strings.ReplaceAll(dir, "/", " · ")
	}
	var parts []string
	for _, p := range []string{product, topic} {
		if p != "" {
			parts = append(parts, strings.ToUpper(p[:1])+p[1:])
		}
	}
	return strings.Join(parts, " · ")
}

func (b *builder) catalogue() error {
	c := page.Catalogue{Frame: b.frame(cataloguePath, "Runbooks",
		"Procedures to read, print or run. Each page and its run are made from the same file.")}
	at := map[string]int{}
	for _, rb := range b.runbooks {
		group := groupName(rb)
		i, ok := at[group]
		if !ok {
			i = len(c.Groups)
			at[group] = i
			c.Groups = append(c.Groups, page.CardGroup{Title: group, ID: markdown.Slug(group)})
			c.TOC = append(c.TOC, page.Heading{ID: markdown.Slug(group), Title: group})
		}
		c.Groups[i].Cards = append(c.Groups[i].Cards, *b.card(cataloguePath, rb.Path))
	}
	return b.put(cataloguePath, func(w io.Writer) error { return b.theme.Catalogue(w, c) })
}

// nav is the navigation, the same on every page.
func (b *builder) nav() []page.NavGroup {
	groups := []page.NavGroup{{Links: []page.Link{{Title: "What is broken?", Path: "index.html"}}}}
	if ix := b.byPath["faq/index.md"]; ix != nil {
		groups[0].Links = append(groups[0].Links, page.Link{Title: "All questions", Path: faqPath})
	}
	groups[0].Links = append(groups[0].Links, page.Link{Title: "All runbooks", Path: cataloguePath})
	for _, t := range b.topics() {
		g := page.NavGroup{Title: t.title}
		for _, q := range t.questions {
			g.Links = append(g.Links, page.Link{Title: q.meta.Title, Path: q.out})
		}
		groups = append(groups, g)
	}
	runbooks := page.NavGroup{Title: "Runbooks"}
	for _, rb := range b.runbooks {
		runbooks.Links = append(runbooks.Links, page.Link{Title: rb.Title, Path: runbookPath(rb.Path)})
	}
	if len(runbooks.Links) > 0 {
		groups = append(groups, runbooks)
	}
	var section string
	for _, d := range b.docs {
		if !isArticle(d) {
			continue
		}
		if name := sectionName(d); name != section || len(groups) == 0 {
			section = name
			groups = append(groups, page.NavGroup{Title: name})
		}
		g := &groups[len(groups)-1]
		g.Links = append(g.Links, page.Link{Title: d.meta.Title, Path: d.out})
	}
	return append(groups, page.NavGroup{Title: "Reference", Links: []page.Link{{Title: "What a step can do", Path: verbsPath}}})
}
