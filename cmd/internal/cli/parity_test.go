package cli

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"rutter/content"
	"rutter/executor"
	"rutter/executor/drill"
	"rutter/executor/kube"
	"rutter/executor/kube/kubetest"
	"rutter/generator"
	"rutter/runbooks"
	"rutter/runbooks/runbook"
	"rutter/runbooks/step"
	"rutter/site"
)

// TestDrillsAndParity does every drill twice: once the executor runs the
// runbook, and once a shell runs the commands that stand on the built page.
// The first must end as the drill says, and the second like the first.
func TestDrillsAndParity(t *testing.T) {
	t.Parallel()
	env := &Env{Kinds: step.Builtin()}
	all, err := runbook.Load(runbooks.FS, env.Kinds)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := generator.Render(t.Context(), generator.Config{Content: content.Files, Runbooks: runbooks.FS, Theme: site.Theme})
	if err != nil {
		t.Fatal(err)
	}
	// Drills wait for most of their time, so that several cost little more
	// than one. The other tests have clusters of their own.
	pool := make(chan string, 3)
	for _, name := range []string{"c", "d", "e"} {
		pool <- name
	}
	for _, rb := range all {
		drills, err := drillsOf(runbooks.FS, rb, env)
		if err != nil {
			t.Fatal(err)
		}
		if len(drills) == 0 {
			t.Errorf("%s has no drill", rb.Path)
		}
		page := commandsOf(t, tree, rb)
		for _, d := range drills {
			t.Run(d.Name, func(t *testing.T) {
				t.Parallel()
				name := <-pool
				t.Cleanup(func() { pool <- name })
				proveDrill(t, d, rb, page, name)
			})
		}
	}
}

// proveDrill does one drill both ways on one practice cluster.
func proveDrill(t *testing.T, d *runbook.Drill, rb *runbook.Runbook, page map[string]string, name string) {
	kubeconfig, kubeContext := kubetest.Cluster(t, name)
	cluster, err := kube.New(kube.Config{Kubeconfig: kubeconfig, Context: kubeContext})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	cfg := drill.Config{Catalogue: runbooks.FS, Now: time.Now, Arenas: map[string]drill.Arena{}, Contexts: map[string]string{}}
	for _, c := range rb.Clusters {
		cfg.Arenas[c.Role], cfg.Contexts[c.Role] = arena{cluster}, kubeContext
	}
	var byExecutor, byHand map[string]string
	cfg.Inspect = func(ctx context.Context, _ *executor.Job) error {
		byExecutor = stateOf(ctx, t, cluster)
		return nil
	}
	res, err := drill.Run(t.Context(), d, rb, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range res.Failures {
		t.Errorf("by the executor: %s", f)
	}
	cfg.Perform = func(ctx context.Context, job *executor.Job, _ executor.Options) (*executor.Report, error) {
		return res.Report, typeCommands(ctx, t, res.Report, page, job, kubeconfig)
	}
	cfg.Inspect = func(ctx context.Context, _ *executor.Job) error {
		byHand = stateOf(ctx, t, cluster)
		return nil
	}
	hand, err := drill.Run(t.Context(), d, rb, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range hand.Failures {
		t.Errorf("by hand: %s", f)
	}
	if diff := cmp.Diff(byExecutor, byHand); diff != "" {
		t.Errorf("the page's commands end in another state (-executor +by hand):\n%s", diff)
	}
}

// commandsOf reads the commands of each step from the built page.
func commandsOf(t *testing.T, tree generator.Tree, rb *runbook.Runbook) map[string]string {
	t.Helper()
	doc, err := html.Parse(bytes.NewReader(tree[path.Join("runbooks", rb.Path, "index.html")]))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	var walk func(*html.Node)
	walk = func(n *html.Node) {
		for _, a := range n.Attr {
			if a.Key == "data-kubectl" {
				out[a.Val] = textOf(n)
			}
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c)
		}
	}
	walk(doc)
	if len(out) == 0 {
		t.Fatalf("the page of %s shows no commands", rb.Path)
	}
	return out
}

func textOf(n *html.Node) string {
	if n.Type == html.TextNode {
		return n.Data
	}
	var b strings.Builder
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		b.WriteString(textOf(c))
	}
	return b.String()
}

// typeCommands does what a person does with the page: fills in the
// placeholders, leaves out the steps whose condition does not hold, and types
// the commands of the others into one shell, without stopping at an error.
func typeCommands(ctx context.Context, t *testing.T, rep *executor.Report, page map[string]string, job *executor.Job, kubeconfig string) error {
	t.Helper()
	fill := []string{}
	for role, c := range job.Contexts {
		fill = append(fill, step.Readable(step.Mark(step.ContextMark, role)), c)
	}
	for name, v := range job.Inputs {
		text := fmt.Sprint(v)
		fill = append(fill, step.Readable(step.Mark(step.InputMark, name)), text)
	}
	var script strings.Builder
	for _, s := range rep.Steps {
		switch {
		case s.Status == executor.Skipped:
		case s.Step.Each == nil:
			script.WriteString(page[s.Step.ID] + "\n")
		default:
			for _, item := range s.Items {
				script.WriteString(fillItem(page[s.Step.ID], s.Step.Each.As, item) + "\n")
			}
		}
	}
	text := strings.NewReplacer(fill...).Replace(script.String())
	cmd := exec.CommandContext(ctx, "sh")
	cmd.Stdin = strings.NewReader(text)
	cmd.Env = append(cmd.Environ(), "KUBECONFIG="+kubeconfig)
	out, err := cmd.CombinedOutput()
	t.Logf("typed:\n%s\nprinted:\n%s\nended: %v", text, out, err)
	return ctx.Err()
}

// fillItem puts an item into the commands of a repeated step, as a person does
// who reads "once for each".
func fillItem(text, as string, item any) string {
	fields, ok := item.(map[string]any)
	if !ok {
		return strings.ReplaceAll(text, "<"+as+">", fmt.Sprint(item))
	}
	for name, v := range fields {
		text = strings.ReplaceAll(text, "<"+as+"."+name+">", fmt.Sprint(v))
	}
	return text
}

// stateOf returns every object that a runbook could have to do with, as YAML
// without what differs from run to run.
func stateOf(ctx context.Context, t *testing.T, c *kube.Cluster) map[string]string {
	t.Helper()
	resources := []string{"namespaces", "nodes", "pods", "secrets", "services", "configmaps", "serviceaccounts", "deployments.apps", "daemonsets.apps",
		"clusterrolebindings.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io",
		"mutatingwebhookconfigurations.admissionregistration.k8s.io", "validatingwebhookconfigurations.admissionregistration.k8s.io"}
	crds, err := c.List(ctx, step.Query{Resource: step.Resource{Plural: "customresourcedefinitions", Group: "apiextensions.k8s.io"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range crds {
		resources = append(resources, crd.GetName())
	}
	state := map[string]string{}
	for _, name := range resources {
		res, err := step.ParseResource(name)
		if err != nil {
			t.Fatal(err)
		}
		objs, err := c.List(ctx, step.Query{Resource: res})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objs {
			state[step.RefOf(res, o).String()] = settled(t, o)
		}
	}
	return state
}

// settled is an object without identities, counts and times.
func settled(t *testing.T, o *unstructured.Unstructured) string {
	t.Helper()
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	if o.GetDeletionTimestamp() != nil {
		_ = unstructured.SetNestedField(o.Object, "set", "metadata", "deletionTimestamp")
	}
	owners := o.GetOwnerReferences()
	for i := range owners {
		owners[i].UID = ""
	}
	o.SetOwnerReferences(owners)
	// What controllers note goes its own time.
	unstructured.RemoveNestedField(o.Object, "status")
	text, err := yaml.Marshal(o.Object)
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.DeleteFunc(strings.Split(string(text), "\n"), func(l string) bool { return strings.Contains(l, "uid:") })
	return strings.Join(lines, "\n")
}
