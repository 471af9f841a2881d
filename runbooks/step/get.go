package step

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
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
		Result: "the object, or the list of objects; null for an optional object that is missing",
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
		if _, err := parsePath(c.Path); err != nil && !HasMark(c.Path) {
			ps = append(ps, Problem{"columns", err.Error(), "write it as .status.phase"})
		}
		if strings.ContainsAny(c.Head, ",:") {
			ps = append(ps, Problem{"columns", fmt.Sprintf("heading %q holds a comma or a colon, which kubectl takes for the next one", c.Head), "drop it"})
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
	return g.lines("get", flags...)
}

func (g *get) customColumns() string {
	cols := make([]string, len(g.Columns))
	for i, c := range g.Columns {
		cols[i] = strings.ToUpper(strings.Join(strings.Fields(c.Head), "-")) + ":" + c.Path
	}
	return strings.Join(cols, ",")
}

// Select prints a value of the result. A list is below .items for kubectl.
func (g *get) Select(jsonPath string) Line {
	if m := itemRE.FindStringSubmatch(jsonPath); m != nil && g.Name == "" {
		return g.selectItem(m[1], m[2])
	}
	if g.Name == "" {
		jsonPath = "{.items" + strings.TrimPrefix(strings.TrimPrefix(jsonPath, "{"), "$")
	}
	flags := []string{"-o", "jsonpath=" + jsonPath}
	if g.Optional {
		flags = append(flags, "--ignore-not-found")
	}
	return Line{Words: g.kubectl("get", flags...)}
}

// itemRE is a path into one item of a list: its index and what is below it.
var itemRE = regexp.MustCompile(`^\{\[([0-9]+)\](.*)\}$`)

// selectItem prints a value of one item, and nothing if there are fewer: where
// kubectl is asked for the item by its index, it fails and prints all it read.
func (g *get) selectItem(index, below string) Line {
	filter := []string{"head", "-n", "1"}
	if i, err := strconv.Atoi(index); err == nil && i > 0 {
		filter = []string{"sed", "-n", strconv.Itoa(i+1) + "p"}
	}
	return Line{Words: g.kubectl("get", "-o", `jsonpath={range .items[*]}{@`+below+`}{"\n"}{end}`), Filter: filter}
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
	if err := refuse(g); err != nil {
		return nil, fmt.Errorf("get: %w", err)
	}
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

// field returns what stands at a path, as kubectl prints it. What is in a
// Secret is not shown, nor the copy of it that kubectl keeps beside.
func field(obj *unstructured.Unstructured, path string) string {
	p, err := parsePath(path)
	if err != nil {
		return "<" + err.Error() + ">"
	}
	content := obj.Object
	if obj.GetKind() == "Secret" && obj.GroupVersionKind().Group == "" {
		masked := obj.DeepCopy()
		for _, key := range []string{"data", "stringData"} {
			if m, ok := masked.Object[key].(map[string]any); ok {
				for k := range m {
					m[k] = "(masked)"
				}
			}
		}
		annotations := masked.GetAnnotations()
		delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
		masked.SetAnnotations(annotations)
		content = masked.Object
	}
	return cells(p.find(content))
}
