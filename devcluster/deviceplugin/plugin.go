package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	socket          = v1beta1.DevicePluginPath + "aliyungpushare.sock"
	registerSeconds = 5

	visibleDevices = "NVIDIA_VISIBLE_DEVICES"
	cgpuDisable    = "CGPU_DISABLE"
	// Keys of the ledger, on pods and in their containers' environment.
	ledgerCard      = "ALIYUN_COM_GPU_MEM_IDX"
	ledgerPod       = "ALIYUN_COM_GPU_MEM_POD"
	ledgerContainer = "ALIYUN_COM_GPU_MEM_CONTAINER"
	ledgerDevice    = "ALIYUN_COM_GPU_MEM_DEV"
	ledgerAssigned  = "ALIYUN_COM_GPU_MEM_ASSIGNED"
	ledgerAssumed   = "ALIYUN_COM_GPU_MEM_ASSUME_TIME" // Unix nanoseconds
)

// A plugin keeps what it read when it was built.
type plugin struct {
	v1beta1.UnimplementedDevicePluginServer
	node              apiNode
	cards             int
	cardGiB           int
	isolationDisabled bool
	server            *grpc.Server
	allocating        sync.Mutex
}

func build(node apiNode, cards, cardGiB int) (*plugin, error) {
	if err := node.writeCardCount(cards); err != nil {
		return nil, err
	}
	labels, err := node.labels()
	if err != nil {
		return nil, err
	}
	built := &plugin{node: node, cards: cards, cardGiB: cardGiB, server: grpc.NewServer()}
	key, disabling := isolationLabel, "true"
	if labels[scheduleLabel] != "" {
		key, disabling = scheduleLabel, "share"
	}
	built.isolationDisabled = labels[key] == disabling
	log.Printf("read label %s=%q: isolation disabled: %t", key, labels[key], built.isolationDisabled)
	return built, nil
}

// serve answers the kubelet and makes itself known to it.
func (p *plugin) serve() error {
	if err := os.Remove(socket); err != nil && !os.IsNotExist(err) {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	v1beta1.RegisterDevicePluginServer(p.server, p)
	go p.server.Serve(listener)
	kubelet, err := grpc.NewClient("unix://"+v1beta1.KubeletSocket,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer kubelet.Close()
	timed, cancel := context.WithTimeout(context.Background(), registerSeconds*time.Second)
	defer cancel()
	_, err = v1beta1.NewRegistrationClient(kubelet).Register(timed, &v1beta1.RegisterRequest{
		Version:      v1beta1.Version,
		Endpoint:     filepath.Base(socket),
		ResourceName: memoryResource,
	}, grpc.WaitForReady(true))
	if err == nil {
		log.Printf("registered %d cards of %d GiB", p.cards, p.cardGiB)
	}
	return err
}

// stop also removes the socket.
func (p *plugin) stop() {
	p.server.Stop()
}

func (p *plugin) GetDevicePluginOptions(
	context.Context, *v1beta1.Empty,
) (*v1beta1.DevicePluginOptions, error) {
	return &v1beta1.DevicePluginOptions{}, nil
}

// ListAndWatch tells of a device for each GiB; none of them changes.
func (p *plugin) ListAndWatch(
	_ *v1beta1.Empty, stream grpc.ServerStreamingServer[v1beta1.ListAndWatchResponse],
) error {
	response := &v1beta1.ListAndWatchResponse{}
	for card := range p.cards {
		for unit := range p.cardGiB {
			id := fmt.Sprintf("%s-_-%d", uuid(card), unit)
			device := &v1beta1.Device{ID: id, Health: v1beta1.Healthy}
			response.Devices = append(response.Devices, device)
		}
	}
	if err := stream.Send(response); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// Allocate is called for one container at a time, and never told of which pod. It does not fail:
// a container that has no card is told so by its environment.
func (p *plugin) Allocate(
	_ context.Context, request *v1beta1.AllocateRequest,
) (*v1beta1.AllocateResponse, error) {
	p.allocating.Lock()
	defer p.allocating.Unlock()
	asked := 0
	for _, container := range request.ContainerRequests {
		asked += len(container.DevicesIds)
	}
	card, visible, err := p.findCard(asked)
	if err != nil {
		log.Printf("request of %d GiB can't be satisfied: %v", asked, err)
		card, visible = -1, fmt.Sprintf("no-gpu-has-%dGiB-to-run", asked)
	}
	response := &v1beta1.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		environment := map[string]string{
			visibleDevices:  visible,
			ledgerCard:      strconv.Itoa(card),
			ledgerPod:       strconv.Itoa(asked),
			ledgerContainer: strconv.Itoa(len(container.DevicesIds)),
			ledgerDevice:    strconv.Itoa(p.cardGiB),
		}
		if p.isolationDisabled && err == nil {
			environment[cgpuDisable] = "true"
		}
		response.ContainerResponses = append(response.ContainerResponses,
			&v1beta1.ContainerAllocateResponse{Envs: environment})
	}
	return response, nil
}

// findCard returns the card that the scheduler has assumed for the pod it takes the call to be for,
// and how a container is told to see it. A node of one card needs no such pod.
func (p *plugin) findCard(asked int) (int, string, error) {
	pods, err := p.node.pendingPods()
	if err != nil {
		return 0, "", err
	}
	pod := findAssumed(pods, asked)
	switch {
	case pod == nil && p.cards == 1:
		return 0, uuid(0), nil
	case pod == nil:
		return 0, "", fmt.Errorf("no assumed pod asks for so much")
	}
	card, err := strconv.Atoi(pod.Annotations[ledgerCard])
	if err != nil || card < 0 || card >= p.cards {
		return 0, "", fmt.Errorf("pod %s/%s has card %q", pod.Namespace, pod.Name, pod.Annotations[ledgerCard])
	}
	now := time.Now().UnixNano()
	log.Printf("pod %s/%s gets card %d", pod.Namespace, pod.Name, card)
	return card, strconv.Itoa(card), p.node.annotate(pod,
		fmt.Sprintf(`{%q: "true", %q: "%d"}`, ledgerAssigned, ledgerAssumed, now))
}

// findAssumed returns the pod assumed first among those that ask for so much and have no card yet.
func findAssumed(pods []corev1.Pod, asked int) *corev1.Pod {
	var found *corev1.Pod
	var since int64
	for index := range pods {
		pod := &pods[index]
		assumed, err := strconv.ParseInt(pod.Annotations[ledgerAssumed], 10, 64)
		if err != nil || pod.Annotations[ledgerAssigned] != "false" || sumMemory(pod) != int64(asked) {
			continue
		}
		if found == nil || assumed < since {
			found, since = pod, assumed
		}
	}
	return found
}

func sumMemory(pod *corev1.Pod) int64 {
	var sum int64
	for _, container := range pod.Spec.Containers {
		limit := container.Resources.Limits[memoryResource]
		sum += limit.Value()
	}
	return sum
}

func uuid(card int) string {
	return fmt.Sprintf("GPU-%d", card)
}
