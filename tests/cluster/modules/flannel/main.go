// flannel with VXLAN between the nodes, put together from flannel's own packages.
//
// Its own main package has every backend in it; the libraries of one cloud's backend cannot be had from the module proxy. What it
// does for VXLAN with Kubernetes is done here in the same order: the subnet from the Node's podCIDR, the tunnel, masquerading and
// forwarding rules, the file for the CNI plugin, then routes to the other nodes for as long as it runs.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/flannel-io/flannel/pkg/backend"
	_ "github.com/flannel-io/flannel/pkg/backend/vxlan"
	"github.com/flannel-io/flannel/pkg/ip"
	"github.com/flannel-io/flannel/pkg/ipmatch"
	"github.com/flannel-io/flannel/pkg/subnet"
	"github.com/flannel-io/flannel/pkg/subnet/kube"
	"github.com/flannel-io/flannel/pkg/trafficmngr"
	"github.com/flannel-io/flannel/pkg/trafficmngr/iptables"
	"github.com/flannel-io/flannel/pkg/trafficmngr/nftables"
)

// Seconds between two looks whether the rules are still there: flannel's default.
const resyncSeconds = 5

type options struct {
	kubeconfig, configuration, subnetFile, nodeInterface string
}

func main() {
	var given options
	flag.StringVar(&given.kubeconfig, "kubeconfig-file", "", "kubeconfig of a user who may patch nodes/status")
	flag.StringVar(&given.configuration, "net-config-path", "", "flannel's net-conf.json")
	flag.StringVar(&given.subnetFile, "subnet-file", "/run/flannel/subnet.env", "written when the tunnel is there")
	flag.StringVar(&given.nodeInterface, "iface", "eth0", "interface between the nodes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, given); err != nil {
		fmt.Fprintln(os.Stderr, "flannel:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, given options) error {
	// The node's name is in the environment: NODE_NAME.
	manager, err := kube.NewSubnetManager(ctx, "", given.kubeconfig, "flannel.alpha.coreos.com", given.configuration, false)
	if err != nil {
		return fmt.Errorf("subnets: %w", err)
	}
	config, err := manager.GetNetworkConfig(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", given.configuration, err)
	}
	family, err := ipmatch.GetIPFamily(config.EnableIPv4, config.EnableIPv6)
	if err != nil {
		return err
	}
	between, err := ipmatch.LookupExtIface(given.nodeInterface, "", "", family, ipmatch.PublicIPOpts{})
	if err != nil {
		return fmt.Errorf("interface %s: %w", given.nodeInterface, err)
	}
	of, err := backend.NewManager(ctx, manager, between).GetBackend(config.BackendType)
	if err != nil {
		return fmt.Errorf("backend %s: %w", config.BackendType, err)
	}
	var running sync.WaitGroup
	network, err := of.RegisterNetwork(ctx, &running, config)
	if err != nil {
		return fmt.Errorf("network: %w", err)
	}
	if err := setRules(ctx, config, network); err != nil {
		return fmt.Errorf("rules: %w", err)
	}
	own := network.Lease()
	if err := manager.HandleSubnetFile(given.subnetFile, config, true, own.Subnet, own.IPv6Subnet, network.MTU()); err != nil {
		return fmt.Errorf("%s: %w", given.subnetFile, err)
	}
	running.Go(func() { network.Run(ctx) })
	err = manager.CompleteLease(ctx, own, &running)
	running.Wait()
	return err
}

// setRules masquerades what leaves the network, and lets through what is of it.
func setRules(ctx context.Context, config *subnet.Config, network backend.Network) error {
	var traffic trafficmngr.TrafficManager = &iptables.IPTablesManager{}
	if config.EnableNFTables {
		traffic = &nftables.NFTablesManager{}
	}
	if err := traffic.Init(ctx); err != nil {
		return err
	}
	// The namespace is new: there are no rules of an earlier flannel.
	var before ip.IP4Net
	var before6 ip.IP6Net
	err := traffic.SetupAndEnsureMasqRules(ctx, config.Network, before, before, config.IPv6Network, before6, before6,
		network.Lease(), resyncSeconds, false)
	if err != nil {
		return err
	}
	traffic.SetupAndEnsureForwardRules(ctx, config.Network, config.IPv6Network, resyncSeconds)
	return nil
}
