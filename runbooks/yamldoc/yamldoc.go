// Package yamldoc reads YAML that people write, strictly.
//
// [Parse] turns a file into a node tree or diagnostics that name the line;
// a [Decoder] fills a struct from it and reports every key that is unknown,
// missing, double or of the wrong type, each at its place with the nearest
// right name. Struct tags are the schema: yaml:"name[,required][,single][,raw][,filled]"
// names the key, doc describes it, enum:"a|b" lists what it may be. The package
// knows nothing of runbooks; what a string means is up to the Decoder's hooks.
package yamldoc

import (
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"rutter/runbooks/diag"
)

// maxNodes bounds a document after its aliases are followed, so that a small
// file cannot grow without end.
const maxNodes = 200_000

// Parse reads the one document of src and follows its aliases and merge keys.
// It returns nil and adds to list if src is not one YAML mapping.
func Parse(src diag.Source, list *diag.List) *yaml.Node {
	text := Normalize(src.Text)
	at := func(line, col int) diag.Pos { return diag.Pos{File: src.Name, Line: line, Col: col} }
	if strings.TrimSpace(text) == "" {
		list.Addf(at(1, 1), "the file is empty")
		return nil
	}
	dec := yaml.NewDecoder(strings.NewReader(text))
	var doc yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		list.Addf(at(1, 1), "the file is empty")
		return nil
	} else if err != nil {
		addSyntaxError(src, text, err, list)
		return nil
	}
	var next yaml.Node
	switch err := dec.Decode(&next); {
	case err == nil:
		list.AddHint(at(next.Line, next.Column), "put it in a file of its own", "a second document starts here; a file holds one")
		return nil
	case !errors.Is(err, io.EOF):
		addSyntaxError(src, text, err, list)
		return nil
	}
	if len(doc.Content) == 0 {
		list.Addf(at(1, 1), "the file is empty")
		return nil
	}
	r := resolver{file: src.Name, list: list, open: map[*yaml.Node]bool{}}
	root := r.resolve(doc.Content[0])
	if r.failed {
		return nil
	}
	if root.Kind != yaml.MappingNode {
		list.Addf(at(root.Line, root.Column), "want keys and values, got %s", describe(root))
		return nil
	}
	return root
}

// Normalize drops a byte order mark and turns CRLF into LF, so that columns
// and contents do not depend on the editor.
func Normalize(text string) string {
	return strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// addSyntaxError reports what the YAML parser said, in plainer words where the
// cause is a tab, and at the line where a tab stands.
func addSyntaxError(src diag.Source, text string, err error, list *diag.List) {
	for i, line := range strings.Split(text, "\n") {
		indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
		if tab := strings.IndexByte(indent, '\t'); tab >= 0 && strings.TrimSpace(line) != "" {
			list.AddHint(diag.Pos{File: src.Name, Line: i + 1, Col: tab + 1}, "indent with spaces", "YAML does not allow a tab for indentation")
			return
		}
	}
	msg, line := strings.ReplaceAll(err.Error(), "\n", " "), 1
	if m := yamlLine.FindStringSubmatch(msg); m != nil {
		msg = m[2]
		if n, err := strconv.Atoi(m[1]); err == nil {
			line = max(n, 1)
		}
	}
	list.Addf(diag.Pos{File: src.Name, Line: line}, "this is not YAML: %s", msg)
}

// resolver copies a tree with aliases and merge keys replaced by what they
// stand for.
type resolver struct {
	file   string
	list   *diag.List
	nodes  int
	failed bool
	open   map[*yaml.Node]bool // anchored nodes being resolved
}

func (r *resolver) fail(n *yaml.Node, msg string) *yaml.Node {
	if !r.failed {
		r.list.Addf(diag.Pos{File: r.file, Line: n.Line, Col: n.Column}, "%s", msg)
	}
	r.failed = true
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: n.Line, Column: n.Column}
}

func (r *resolver) resolve(n *yaml.Node) *yaml.Node {
	r.nodes++
	if r.failed || r.nodes > maxNodes {
		return r.fail(n, "the file is too large once its aliases are followed")
	}
	if n.Kind == yaml.AliasNode {
		if r.open[n.Alias] {
			return r.fail(n, "the alias *"+n.Value+" stands inside what it names")
		}
		return r.resolve(n.Alias)
	}
	if n.Anchor != "" {
		r.open[n] = true
		defer delete(r.open, n)
	}
	c := *n
	c.Content, c.Anchor, c.Alias = nil, "", nil
	for _, child := range n.Content {
		c.Content = append(c.Content, r.resolve(child))
	}
	if c.Kind == yaml.MappingNode {
		c.Content = r.merge(c.Content)
	}
	return &c
}

// merge spreads the values of << keys; the mapping's own keys win.
func (r *resolver) merge(pairs []*yaml.Node) []*yaml.Node {
	var own, merged []*yaml.Node
	seen := map[string]bool{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i].Tag != "!!merge" {
			own = append(own, pairs[i], pairs[i+1])
			seen[pairs[i].Value] = true
		}
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i].Tag != "!!merge" {
			continue
		}
		maps := []*yaml.Node{pairs[i+1]}
		if pairs[i+1].Kind == yaml.SequenceNode {
			maps = pairs[i+1].Content
		}
		for _, m := range maps {
			if m.Kind != yaml.MappingNode {
				r.fail(m, "<< wants a mapping, got "+describe(m))
				continue
			}
			for j := 0; j+1 < len(m.Content); j += 2 {
				if key := m.Content[j].Value; !seen[key] {
					seen[key] = true
					merged = append(merged, m.Content[j], m.Content[j+1])
				}
			}
		}
	}
	return append(own, merged...)
}

// describe says what a node is, in a word a person would use.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "keys and values"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!null":
		return "nothing"
	case "!!bool":
		return "true or false"
	case "!!int", "!!float":
		return "a number"
	case "!!timestamp":
		return "a date"
	}
	return "text"
}
