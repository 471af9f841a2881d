// Package search builds the index that the pages search, without a server.
//
// A [Doc] is a section of a page; [Build] turns them into an index, and
// [Index.Script] into a JavaScript file, because a page opened from a file may
// load scripts but fetch nothing. [Terms] cuts text into terms; the script of the
// theme cuts what is typed by the same rules, which a test in a browser sees to.
package search

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Doc is one thing to be found: a page, or a section of one.
type Doc struct {
	Title string // of the section
	Page  string // title of the page it is in, "" if it is the page itself
	Kind  string // such as "Runbook", shown beside the title
	Href  string // from the root of the site
	Text  string
	// Keywords are found like the title but not shown: other names of the
	// thing, error messages it explains.
	Keywords string
}

// Index is the searchable form of some documents.
type Index struct {
	docs  []Doc
	terms map[string][]posting
}

// posting says that a term is in a document, and how much that counts.
type posting struct{ doc, weight int }

// A term in a title or keyword counts as much as many in the text.
const (
	titleBoost   = 12
	keywordBoost = 6
	pageBoost    = 3
)

// Build indexes the documents. Their order breaks ties between equal results.
func Build(docs []Doc) *Index {
	ix := &Index{docs: docs, terms: map[string][]posting{}}
	lengths := make([]float64, len(docs))
	counts := make([]map[string]float64, len(docs))
	total := 0.0
	for i, d := range docs {
		counts[i] = map[string]float64{}
		for _, field := range []struct {
			text  string
			boost float64
		}{{d.Title, titleBoost}, {d.Keywords, keywordBoost}, {d.Page, pageBoost}, {d.Text, 1}} {
			for _, term := range Terms(field.text) {
				counts[i][term] += field.boost
				lengths[i]++
			}
		}
		total += lengths[i]
	}
	average := max(total/float64(max(len(docs), 1)), 1)
	for i := range docs {
		for _, term := range slices.Sorted(maps.Keys(counts[i])) {
			// BM25 without the part that needs to know how rare a term is: that
			// one is the searcher's, who sees all documents of a term.
			tf := counts[i][term]
			weight := tf * 2.2 / (tf + 1.2*(0.25+0.75*lengths[i]/average))
			ix.terms[term] = append(ix.terms[term], posting{i, max(1, int(math.Round(weight*10)))})
		}
	}
	return ix
}

// snippetRunes bounds the text of a document that is kept to be shown.
const snippetRunes = 160

// Script returns a script that hands the index to the page's search. The same
// documents give the same bytes.
func (ix *Index) Script() ([]byte, error) {
	docs := make([][5]string, len(ix.docs))
	for i, d := range ix.docs {
		docs[i] = [5]string{d.Title, d.Page, d.Kind, d.Href, snippet(d.Text)}
	}
	var postings [][]int
	terms := slices.Sorted(maps.Keys(ix.terms))
	for _, term := range terms {
		// Document numbers as differences: they are short, and compress well.
		var flat []int
		last := 0
		for _, p := range ix.terms[term] {
			flat = append(flat, p.doc-last, p.weight)
			last = p.doc
		}
		postings = append(postings, flat)
	}
	var b bytes.Buffer
	b.WriteString("rutterSearch(")
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(true) // so that no text can end a script
	if err := enc.Encode(map[string]any{"docs": docs, "terms": strings.Join(terms, " "), "postings": postings}); err != nil {
		return nil, fmt.Errorf("write the search index: %w", err)
	}
	b.Truncate(b.Len() - 1)
	b.WriteString(");\n")
	return b.Bytes(), nil
}

func snippet(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	runes := []rune(text)
	if len(runes) <= snippetRunes {
		return text
	}
	return strings.TrimSpace(string(runes[:snippetRunes])) + "…"
}
