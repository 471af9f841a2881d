package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/controller-manager/pkg/informerfactory"
)

// workers is how many objects a controller handles at once; a practice
// cluster holds tens of objects, not thousands.
const workers = 2

// controller is one loop of the control plane.
type controller struct {
	account string // its service account in kube-system; empty acts as the manager itself
	build   func(context.Context, *parts) (func(context.Context), error)
}

const (
	managerAgent = "kube-controller-manager"
	managerUser  = "system:kube-controller-manager"
)

func (c controller) user() string {
	if c.account == "" {
		return managerUser
	}
	return serviceAccount(c.account)
}

func serviceAccount(name string) string { return "system:serviceaccount:kube-system:" + name }

// parts is what controllers are built from. Clients and their configuration
// belong to the controller that is being built; the rest is shared.
type parts struct {
	client *kubernetes.Clientset
	config *rest.Config

	informers informers.SharedInformerFactory
	objects   informerfactory.InformerFactory
	metadata  metadata.Interface
	mapper    meta.ResettableRESTMapper
	started   chan struct{} // closed when the informers run
	rootCA    []byte
	saKeyFile string
}

// runControllers runs every controller until ctx ends.
func runControllers(ctx context.Context, cfg config, base *rest.Config) error {
	shared, err := newParts(cfg, base)
	if err != nil {
		return fmt.Errorf("start the controllers: %w", err)
	}
	var loops []func(context.Context)
	for _, c := range controllers() {
		loop, err := buildController(ctx, c, *shared, base)
		if err != nil {
			return fmt.Errorf("start %s: %w", c.user(), err)
		}
		loops = append(loops, loop)
	}
	shared.objects.Start(ctx.Done())
	close(shared.started)

	var g errgroup.Group
	for _, loop := range loops {
		g.Go(func() error {
			loop(ctx)
			return nil
		})
	}
	return g.Wait()
}

func buildController(ctx context.Context, c controller, p parts, base *rest.Config) (func(context.Context), error) {
	p.config = identity(base, managerAgent, c.user())
	client, err := kubernetes.NewForConfig(p.config)
	if err != nil {
		return nil, err
	}
	p.client = client
	return c.build(ctx, &p)
}

func newParts(cfg config, base *rest.Config) (*parts, error) {
	rootCA, err := os.ReadFile(cfg.caFile)
	if err != nil {
		return nil, err
	}
	shared := identity(base, managerAgent, managerUser)
	client, err := kubernetes.NewForConfig(shared)
	if err != nil {
		return nil, err
	}
	// Garbage collection watches every kind of object there is.
	all := identity(base, managerAgent, serviceAccount("generic-garbage-collector"))
	md, err := metadata.NewForConfig(all)
	if err != nil {
		return nil, err
	}
	p := &parts{
		informers: informers.NewSharedInformerFactoryWithOptions(client, resync, informers.WithTransform(dropManagedFields)),
		metadata:  md,
		mapper:    restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery())),
		started:   make(chan struct{}),
		rootCA:    rootCA,
		saKeyFile: cfg.saKeyFile,
	}
	p.objects = informerfactory.NewInformerFactory(p.informers,
		metadatainformer.NewSharedInformerFactoryWithOptions(md, resync, metadatainformer.WithTransform(dropManagedFields)))
	return p, nil
}

// resync is how often informers repeat what they know, as in
// kube-controller-manager.
const resync = 12 * time.Hour

// dropManagedFields keeps out of the caches what no controller reads.
func dropManagedFields(obj any) (any, error) {
	if accessor, err := meta.Accessor(obj); err == nil && accessor.GetManagedFields() != nil {
		accessor.SetManagedFields(nil)
	}
	return obj, nil
}
