package step

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Get returns the verb that reads one object or a list of them.
func Get() *Kind {
	return &Kind{
		Name: "get",
		Doc: "Reads one object, or lists those that match.\n\n" +
			"With `name` the result is the object; with `optional` it is null if there is no such object. " +
			"Otherwise the result is the list of what matches, which may be empty.",
		Example: `- id: find
  title: Find the namespace
  get: {resource: namespaces, name: demo, optional: true}
  outputs: {phase: '${result.?status.?phase.orValue("none")}'}
`,
		Result: "the object, or the list of objects",
		New:    func() Action { return new(get) },
	}
}

type get struct {
	Target
	Optional bool     `yaml:"optional" doc:"A named object that is missing gives null instead of an error."`
	Columns  []column `yaml:"columns" doc:"What the table shows of each object."`
}

type column struct {
	Head string `yaml:"head,required" doc:"The heading."`
	Path string `yaml:"path,required" doc:"The field, such as .status.phase."`
}

func (g *get) Effect() Effect { return Reads }

func (g *get) Check() []Problem {
	ps := g.check()
	if g.Optional && g.Name == "" {
		ps = append(ps, Problem{"optional", "optional is about a named object: a list may be empty anyway", "drop it, or add name"})
	}
	for _, c := range g.Columns {
		if !strings.HasPrefix(c.Path, ".") {
			ps = append(ps, Problem{"columns", fmt.Sprintf("path %q does not begin with a dot", c.Path), "write ." + c.Path})
		}
	}
	return ps
}

func (g *get) Permissions() []Permission {
	if g.Name != "" {
		return g.permissions("get")
	}
	return g.permissions("list")
}

func (g *get) Kubectl() []Line {
	var flags []string
	switch {
	case len(g.Columns) > 0:
		flags = append(flags, "-o", "custom-columns="+g.customColumns())
	case g.Name != "":
		flags = append(flags, "-o", "yaml")
	}
	if g.Optional {
		flags = append(flags, "--ignore-not-found")
	}
	return []Line{{Words: g.kubectl("get", flags...)}}
}

func (g *get) customColumns() string {
	cols := make([]string, len(g.Columns))
	for i, c := range g.Columns {
		cols[i] = strings.ToUpper(strings.ReplaceAll(c.Head, " ", "-")) + ":" + c.Path
	}
	return strings.Join(cols, ",")
}

// Select prints a value of the result. A list is below .items for kubectl.
func (g *get) Select(jsonPath string) Line {
	if g.Name == "" {
		jsonPath = "{.items" + strings.TrimPrefix(jsonPath, "{")
	}
	flags := []string{"-o", "jsonpath=" + jsonPath}
	if g.Optional {
		flags = append(flags, "--ignore-not-found")
	}
	return Line{Words: g.kubectl("get", flags...)}
}

func (g *get) Preview(ctx context.Context, r Reader) (*Preview, error) {
	res, err := g.read(ctx, r)
	if err != nil {
		return nil, err
	}
	return &Preview{Said: res.Said, Value: res.Value, Known: true}, nil
}

func (g *get) Run(ctx context.Context, c Cluster, _ Host) (*Result, error) { return g.read(ctx, c) }

func (g *get) read(ctx context.Context, r Reader) (*Result, error) {
	found, err := g.find(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", g.what(), err)
	}
	if g.Name == "" {
		list := make([]any, len(found))
		for i, f := range found {
			list[i] = f.Object.Object
		}
		return &Result{Value: list, Said: fmt.Sprintf("%d found", len(found)), Table: g.table(found)}, nil
	}
	if len(found) == 0 {
		if g.Optional {
			return &Result{Said: "not there"}, nil
		}
		return nil, fmt.Errorf("get %s: there is no such object", g.what())
	}
	return &Result{Value: found[0].Object.Object, Said: "found", Table: g.table(found)}, nil
}

func (g *get) table(found []Found) *Table {
	if len(g.Columns) == 0 {
		return nil
	}
	t := &Table{}
	for _, c := range g.Columns {
		t.Head = append(t.Head, strings.ToUpper(c.Head))
	}
	for _, f := range found {
		row := make([]string, len(g.Columns))
		for i, c := range g.Columns {
			row[i] = field(f.Object, c.Path)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// field returns what stands at a dotted path, "<none>" if nothing does. What
// is in a Secret is not shown.
func field(obj *unstructured.Unstructured, path string) string {
	keys := strings.Split(strings.TrimPrefix(path, "."), ".")
	if obj.GetKind() == "Secret" && (keys[0] == "data" || keys[0] == "stringData") {
		return "(masked)"
	}
	v, ok, err := unstructured.NestedFieldNoCopy(obj.Object, keys...)
	if !ok || err != nil || v == nil {
		return "<none>"
	}
	return fmt.Sprint(v)
}
