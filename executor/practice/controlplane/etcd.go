package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/wal"
)

const (
	// etcdQuota is far more than practice needs and far less than a mistake
	// in a loop could write.
	etcdQuota = 512 << 20
	// etcdSegment is the size of a write-ahead log file, which is allocated
	// at once; etcd's own 64 MB would be most of a cluster's disk space.
	etcdSegment = 4 << 20
	// etcdSnapshotCount keeps fewer entries in memory than etcd's default.
	etcdSnapshotCount = 2000
)

// startEtcd starts a single member that is reached only over a socket in the
// cluster's own directory: etcd has no users here, so no port may lead to it.
func startEtcd(ctx context.Context, cfg config) (*embed.Etcd, error) {
	// A socket file outlives the process that made it.
	for _, socket := range []string{cfg.etcdSocket, peerSocket(cfg)} {
		if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	wal.SegmentSizeBytes = etcdSegment
	etcd, err := embed.StartEtcd(etcdConfig(cfg))
	if err != nil {
		return nil, err
	}
	select {
	case <-etcd.Server.ReadyNotify():
		return etcd, nil
	case err := <-etcd.Err():
		return nil, err
	case <-ctx.Done():
		etcd.Close()
		return nil, ctx.Err()
	}
}

func etcdConfig(cfg config) *embed.Config {
	c := embed.NewConfig()
	c.Name = "practice"
	c.Dir = cfg.etcdDir
	c.ListenClientUrls = []url.URL{{Scheme: "unix", Host: cfg.etcdSocket}}
	c.ListenPeerUrls = []url.URL{{Scheme: "unix", Host: peerSocket(cfg)}}
	// Nobody connects to the advertised addresses; they only have to look
	// like addresses.
	nowhere := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	c.AdvertiseClientUrls = []url.URL{nowhere}
	c.AdvertisePeerUrls = []url.URL{nowhere}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.UnsafeNoFsync = true
	c.QuotaBackendBytes = etcdQuota
	c.SnapshotCount = etcdSnapshotCount
	c.SnapshotCatchUpEntries = etcdSnapshotCount / 2
	c.MaxSnapFiles, c.MaxWalFiles = 1, 1
	c.EnableGRPCGateway = false
	c.LogLevel = "warn"
	return c
}

func peerSocket(cfg config) string { return cfg.etcdSocket + ".peer" }

// watchEtcd returns when etcd fails or the cluster ends.
func watchEtcd(ctx context.Context, etcd *embed.Etcd) error {
	select {
	case err := <-etcd.Err():
		return fmt.Errorf("etcd: %w", err)
	case <-etcd.Server.StopNotify():
		return endedEarly(ctx, "etcd")
	case <-ctx.Done():
		return nil
	}
}
