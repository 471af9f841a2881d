package main

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/cronjob"
	"k8s.io/kubernetes/pkg/controller/daemon"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/disruption"
	"k8s.io/kubernetes/pkg/controller/endpoint"
	"k8s.io/kubernetes/pkg/controller/endpointslice"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/job"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/serviceaccount"
	"k8s.io/kubernetes/pkg/controller/statefulset"
	"k8s.io/kubernetes/pkg/controller/ttlafterfinished"
	"k8s.io/kubernetes/pkg/controller/volume/pvcprotection"
	"k8s.io/kubernetes/pkg/controller/volume/pvprotection"
	satoken "k8s.io/kubernetes/pkg/serviceaccount"
)

// controllers lists what runs in a practice cluster: whatever a runbook can
// meet without a node. Volumes, node lifecycle and clouds are left out; they
// would double the build.
func controllers() []controller {
	return []controller{
		{"namespace-controller", namespaces},
		{"generic-garbage-collector", garbage},
		{"service-account-controller", serviceAccounts},
		{"", tokens},
		{"root-ca-cert-publisher", rootCA},
		{"clusterrole-aggregation-controller", clusterRoles},
		{"deployment-controller", deployments},
		{"replicaset-controller", replicaSets},
		{"statefulset-controller", statefulSets},
		{"daemon-set-controller", daemonSets},
		{"job-controller", jobs},
		{"cronjob-controller", cronJobs},
		{"ttl-after-finished-controller", finishedJobs},
		{"endpoint-controller", endpoints},
		{"endpointslice-controller", endpointSlices},
		{"disruption-controller", disruptions},
		{"pvc-protection-controller", claims},
		{"pv-protection-controller", volumes},
	}
}

// withWorkers fits a controller's Run to a loop.
func withWorkers(run func(context.Context, int)) func(context.Context) {
	return func(ctx context.Context) { run(ctx, workers) }
}

func namespaces(ctx context.Context, p *parts) (func(context.Context), error) {
	// Emptying a namespace takes a call per kind of object.
	p.config.QPS, p.config.Burst = 400, 2000
	md, err := metadata.NewForConfig(p.config)
	if err != nil {
		return nil, err
	}
	c := namespace.NewNamespaceController(ctx, p.client, md,
		p.client.Discovery().ServerPreferredNamespacedResources,
		p.informers.Core().V1().Namespaces(), 5*time.Minute, corev1.FinalizerKubernetes)
	return withWorkers(c.Run), nil
}

// garbagePeriod is how soon the garbage collector notices a new kind of object.
// kube-controller-manager takes 30 s, which is long in a drill.
const garbagePeriod = 3 * time.Second

func garbage(ctx context.Context, p *parts) (func(context.Context), error) {
	graph := garbagecollector.NewDependencyGraphBuilder(ctx, p.metadata, p.mapper,
		garbagecollector.DefaultIgnoredResources(), p.objects, p.started)
	c, err := garbagecollector.NewComposedGarbageCollector(ctx, p.client, p.metadata, p.mapper, graph)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		go c.Sync(ctx, p.client.Discovery(), garbagePeriod)
		c.Run(ctx, workers, 30*time.Second)
	}, nil
}

func serviceAccounts(ctx context.Context, p *parts) (func(context.Context), error) {
	c, err := serviceaccount.NewServiceAccountsController(klog.FromContext(ctx),
		p.informers.Core().V1().ServiceAccounts(), p.informers.Core().V1().Namespaces(),
		p.client, serviceaccount.DefaultServiceAccountsControllerOptions())
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, 1) }, nil
}

// tokens fills Secrets of type kubernetes.io/service-account-token.
func tokens(ctx context.Context, p *parts) (func(context.Context), error) {
	key, err := keyutil.PrivateKeyFromFile(p.saKeyFile)
	if err != nil {
		return nil, err
	}
	generator, err := satoken.JWTTokenGenerator(satoken.LegacyIssuer, key)
	if err != nil {
		return nil, err
	}
	c, err := serviceaccount.NewTokensController(klog.FromContext(ctx),
		p.informers.Core().V1().ServiceAccounts(), p.informers.Core().V1().Secrets(), p.client,
		serviceaccount.TokensControllerOptions{TokenGenerator: generator, RootCA: p.rootCA})
	if err != nil {
		return nil, err
	}
	return withWorkers(c.Run), nil
}

func rootCA(ctx context.Context, p *parts) (func(context.Context), error) {
	c, err := rootcacertpublisher.NewPublisher(p.informers.Core().V1().ConfigMaps(),
		p.informers.Core().V1().Namespaces(), p.client, p.rootCA)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, 1) }, nil
}

func clusterRoles(ctx context.Context, p *parts) (func(context.Context), error) {
	c := clusterroleaggregation.NewClusterRoleAggregation(p.informers.Rbac().V1().ClusterRoles(), p.client.RbacV1())
	return withWorkers(c.Run), nil
}

func deployments(ctx context.Context, p *parts) (func(context.Context), error) {
	c, err := deployment.NewDeploymentController(ctx, p.informers.Apps().V1().Deployments(),
		p.informers.Apps().V1().ReplicaSets(), p.informers.Core().V1().Pods(), p.client)
	if err != nil {
		return nil, err
	}
	return withWorkers(c.Run), nil
}

func replicaSets(ctx context.Context, p *parts) (func(context.Context), error) {
	c := replicaset.NewReplicaSetController(ctx, p.informers.Apps().V1().ReplicaSets(),
		p.informers.Core().V1().Pods(), p.client, replicaset.BurstReplicas)
	return withWorkers(c.Run), nil
}

func statefulSets(ctx context.Context, p *parts) (func(context.Context), error) {
	c := statefulset.NewStatefulSetController(ctx, p.informers.Core().V1().Pods(),
		p.informers.Apps().V1().StatefulSets(), p.informers.Core().V1().PersistentVolumeClaims(),
		p.informers.Apps().V1().ControllerRevisions(), p.client)
	return withWorkers(c.Run), nil
}

func daemonSets(ctx context.Context, p *parts) (func(context.Context), error) {
	c, err := daemon.NewDaemonSetsController(ctx, p.informers.Apps().V1().DaemonSets(),
		p.informers.Apps().V1().ControllerRevisions(), p.informers.Core().V1().Pods(),
		p.informers.Core().V1().Nodes(), p.client, flowcontrol.NewBackOff(time.Second, 15*time.Minute))
	if err != nil {
		return nil, err
	}
	return withWorkers(c.Run), nil
}

func jobs(ctx context.Context, p *parts) (func(context.Context), error) {
	c, err := job.NewController(ctx, p.client, p.informers.Core().V1().Pods(),
		p.informers.Batch().V1().Jobs(), nil, nil)
	if err != nil {
		return nil, err
	}
	return withWorkers(c.Run), nil
}

func cronJobs(ctx context.Context, p *parts) (func(context.Context), error) {
	c, err := cronjob.NewControllerV2(ctx, p.informers.Batch().V1().Jobs(),
		p.informers.Batch().V1().CronJobs(), p.client)
	if err != nil {
		return nil, err
	}
	return withWorkers(c.Run), nil
}

func finishedJobs(ctx context.Context, p *parts) (func(context.Context), error) {
	c := ttlafterfinished.New(ctx, p.informers.Batch().V1().Jobs(), p.client)
	return withWorkers(c.Run), nil
}

func endpoints(ctx context.Context, p *parts) (func(context.Context), error) {
	c := endpoint.NewEndpointController(ctx, p.informers.Core().V1().Pods(),
		p.informers.Core().V1().Services(), p.informers.Core().V1().Endpoints(), p.client, 0)
	return withWorkers(c.Run), nil
}

// endpointsPerSlice is kube-controller-manager's default.
const endpointsPerSlice = 100

func endpointSlices(ctx context.Context, p *parts) (func(context.Context), error) {
	c := endpointslice.NewController(ctx, p.informers.Core().V1().Pods(),
		p.informers.Core().V1().Services(), p.informers.Core().V1().Nodes(),
		p.informers.Discovery().V1().EndpointSlices(), endpointsPerSlice, p.client, 0)
	return withWorkers(c.Run), nil
}

func disruptions(ctx context.Context, p *parts) (func(context.Context), error) {
	scales, err := scale.NewForConfig(p.config, p.mapper, dynamic.LegacyAPIPathResolverFunc,
		scale.NewDiscoveryScaleKindResolver(p.client.Discovery()))
	if err != nil {
		return nil, err
	}
	c := disruption.NewDisruptionController(ctx, p.informers.Core().V1().Pods(),
		p.informers.Policy().V1().PodDisruptionBudgets(), p.informers.Core().V1().ReplicationControllers(),
		p.informers.Apps().V1().ReplicaSets(), p.informers.Apps().V1().Deployments(),
		p.informers.Apps().V1().StatefulSets(), p.client, p.mapper, scales, p.client.Discovery())
	return withWorkers(c.Run), nil
}

// claims and volumes release the finalizers that admission puts on them.
func claims(ctx context.Context, p *parts) (func(context.Context), error) {
	c, err := pvcprotection.NewPVCProtectionController(klog.FromContext(ctx),
		p.informers.Core().V1().PersistentVolumeClaims(), p.informers.Core().V1().Pods(), p.client)
	if err != nil {
		return nil, err
	}
	return withWorkers(c.Run), nil
}

func volumes(ctx context.Context, p *parts) (func(context.Context), error) {
	c, err := pvprotection.NewPVProtectionController(klog.FromContext(ctx),
		p.informers.Core().V1().PersistentVolumes(), p.client)
	if err != nil {
		return nil, err
	}
	return withWorkers(c.Run), nil
}
