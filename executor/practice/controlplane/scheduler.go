package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/kubernetes/pkg/scheduler"
)

// runScheduler runs kube-scheduler's own scheduler with its default profile,
// without the command's server and leader election.
func runScheduler(ctx context.Context, base *rest.Config) error {
	cfg := identity(base, "kube-scheduler", "system:kube-scheduler")
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("start the scheduler: %w", err)
	}
	dyn, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("start the scheduler: %w", err)
	}
	informers := scheduler.NewInformerFactory(client, 0, nil)
	dynInformers := dynamicinformer.NewFilteredDynamicSharedInformerFactory(dyn, 0, corev1.NamespaceAll, nil)
	broadcaster := events.NewEventBroadcasterAdapterWithContext(ctx, client)
	sched, err := scheduler.New(ctx, client, informers, dynInformers,
		func(name string) events.EventRecorderLogger { return broadcaster.NewRecorder(name) },
		scheduler.WithKubeConfig(cfg))
	if err != nil {
		return fmt.Errorf("start the scheduler: %w", err)
	}
	broadcaster.StartRecordingToSink(ctx.Done())
	defer broadcaster.Shutdown()

	informers.Start(ctx.Done())
	dynInformers.Start(ctx.Done())
	informers.WaitForCacheSync(ctx.Done())
	dynInformers.WaitForCacheSync(ctx.Done())
	if err := sched.WaitForHandlersSync(ctx); err != nil {
		return fmt.Errorf("start the scheduler: %w", err)
	}
	sched.Run(ctx)
	return nil
}
