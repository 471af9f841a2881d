package rutter_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// layers says what each package of the module may import of the module, and
// which libraries outside the standard one. A package that is not listed takes
// the rule of the nearest folder above it.
var layers = map[string]struct{ own, libraries []string }{
	"runbooks":               {},
	"runbooks/diag":          {},
	"runbooks/expr":          {own: []string{"runbooks/diag"}, libraries: []string{"cel.dev/cel-go"}},
	"runbooks/yamldoc":       {own: []string{"runbooks/diag"}, libraries: []string{"gopkg.in/yaml.v3"}},
	"runbooks/step":          {own: []string{"runbooks/diag", "runbooks/expr"}, libraries: []string{"k8s.io/apimachinery", "sigs.k8s.io/yaml", "golang.org/x/sync"}},
	"runbooks/step/steptest": {own: []string{"runbooks/step"}, libraries: []string{"k8s.io/apimachinery"}},
	"runbooks/runbook": {own: []string{"runbooks/diag", "runbooks/expr", "runbooks/step", "runbooks/yamldoc"},
		libraries: []string{"gopkg.in/yaml.v3"}},
	"content":                {},
	"site":                   {},
	"generator/markdown":     {own: []string{"runbooks/diag"}, libraries: []string{"github.com/yuin/goldmark", "github.com/alecthomas/chroma/v2"}},
	"generator/page":         {own: []string{"generator/markdown", "runbooks"}},
	"generator/search":       {own: []string{"runbooks/diag"}},
	"generator/check":        {own: []string{"runbooks/diag"}, libraries: []string{"golang.org/x/net"}},
	"generator/bundle":       {own: []string{"runbooks/diag"}},
	"generator":              {own: []string{"generator", "runbooks"}, libraries: []string{"golang.org/x/sync", "gopkg.in/yaml.v3"}},
	"executor/kube":          {own: []string{"runbooks/step"}, libraries: []string{"k8s.io", "golang.org/x/sync", "sigs.k8s.io/yaml"}},
	"executor/kube/kubetest": {own: []string{"executor/kube", "runbooks/step"}, libraries: []string{"k8s.io/apimachinery"}},
	"executor/journal":       {own: []string{"runbooks/step"}, libraries: []string{"k8s.io/apimachinery", "golang.org/x/sys"}},
	"executor": {own: []string{"executor/journal", "runbooks"},
		libraries: []string{"k8s.io/apimachinery", "golang.org/x/sync", "sigs.k8s.io/yaml", "github.com/rogpeppe/go-internal"}},
	"executor/drill": {own: []string{"executor", "runbooks"}, libraries: []string{"k8s.io/apimachinery"}},
	"cmd": {own: []string{""}, libraries: []string{"github.com/spf13/cobra", "golang.org/x/term", "golang.org/x/sys", "golang.org/x/sync",
		"k8s.io/apimachinery", "gopkg.in/yaml.v3"}},
}

// forbidden are paths that must not be reached at all, however indirectly.
var forbidden = map[string][]string{
	"generator": {"k8s.io/client-go", "rutter/executor"},
	"runbooks":  {"k8s.io/client-go", "rutter/executor", "rutter/generator"},
	"executor":  {"rutter/generator", "rutter/site", "rutter/content"},
}

type listed struct {
	ImportPath string
	Imports    []string
	Deps       []string
	Standard   bool
}

func TestLayers(t *testing.T) {
	packages := list(t, "./...")
	standard := map[string]bool{}
	for _, p := range list(t, "std") {
		standard[p.ImportPath] = true
	}
	for _, p := range packages {
		path := strings.TrimPrefix(p.ImportPath, "rutter/")
		if path == "rutter" {
			continue
		}
		rule, ok := ruleFor(path)
		if !ok {
			t.Errorf("%s: no layer is defined for this package", path)
			continue
		}
		for _, imp := range p.Imports {
			switch own, isOwn := strings.CutPrefix(imp, "rutter/"); {
			case standard[imp] || imp == "C":
			case isOwn && !below(own, rule.own):
				t.Errorf("%s may not import %s", path, imp)
			case !isOwn && !below(imp, rule.libraries):
				t.Errorf("%s may not import the library %s", path, imp)
			}
		}
		for folder, paths := range forbidden {
			for _, dep := range p.Deps {
				if below(path, []string{folder}) && below(dep, paths) && !below(path, []string{"executor/kube"}) {
					t.Errorf("%s reaches %s, which %s must not", path, dep, folder)
				}
			}
		}
	}
}

func ruleFor(path string) (rule struct{ own, libraries []string }, ok bool) {
	for {
		if r, found := layers[path]; found {
			return r, true
		}
		i := strings.LastIndexByte(path, '/')
		if i < 0 {
			return rule, false
		}
		path = path[:i]
	}
}

// below reports whether path is one of folders or inside one; "" is all.
func below(path string, folders []string) bool {
	return slices.ContainsFunc(folders, func(f string) bool {
		return f == "" || path == f || strings.HasPrefix(path, f+"/")
	})
}

func list(t *testing.T, pattern string) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,Deps,Standard", pattern)
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list %s: %v\n%s", pattern, err, exit.Stderr)
		}
		t.Fatalf("go list %s: %v", pattern, err)
	}
	var all []listed
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("read go list: %v", err)
		}
		all = append(all, p)
	}
}

// longest is where a file is split, unless there is a reason not to.
const longest = 400

func TestFileSize(t *testing.T) {
	out, err := exec.Command("git", "ls-files", "-co", "--exclude-standard", "*.go").Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	files := strings.Fields(string(out))
	if len(files) < 50 {
		t.Errorf("only %d Go files are listed", len(files))
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), "\n"); n > longest && !strings.HasSuffix(name, "_test.go") {
			t.Errorf("%s has %d lines, and %d is where to look again", name, n, longest)
		}
	}
}
