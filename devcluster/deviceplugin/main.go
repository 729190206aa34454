// The device plugin of gpushare for a real node without GPUs: it serves cards that it makes up.
//
// To the kubelet and to pods it behaves as gpushare-device-plugin 45fb8b8 does: it reads its node's
// label whenever it is built, which is at its start, when the kubelet starts, and on SIGHUP.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	memoryResource = "aliyun.com/gpu-mem"
	countResource  = "aliyun.com/gpu-count"
	isolationLabel = "cgpu.disable.isolation" // Basic
	scheduleLabel  = "ack.node.gpu.schedule"  // Professional
	// While this file is there, a plugin that starts finds no card. The folder is the one of the
	// node that a plugin sees.
	withoutCards = v1beta1.DevicePluginPath + "without-cards"
	apiSeconds   = 10
)

func main() {
	cards := flag.Int("cards", 1, "the node's `number` of cards")
	cardGiB := flag.Int("card-gib", 16, "memory of a card, in `GiB`")
	// The original's, which its manifest sets.
	flag.String("memory-unit", "GiB", "GiB, whatever is given")
	flag.Bool("logtostderr", true, "it always does")
	flag.Int("v", 0, "no more is logged for it")
	flag.Parse()
	log.SetFlags(log.LstdFlags | log.Lmicroseconds)

	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)
	if _, err := os.Stat(withoutCards); err == nil {
		log.Print("no devices found: waiting")
		for <-signals == syscall.SIGHUP {
		}
		return
	}
	// Before the plugin registers, or a kubelet that starts meanwhile would be missed.
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		err = watcher.Add(v1beta1.DevicePluginPath)
	}
	if err != nil {
		log.Fatal(err)
	}
	node, err := connect(os.Getenv("NODE_NAME"))
	if err != nil {
		log.Fatal(err)
	}
	for again := true; again; {
		plugin, err := build(node, *cards, *cardGiB)
		if err == nil {
			err = plugin.serve()
		}
		if err != nil {
			log.Fatal(err) // the kubelet starts it again
		}
		again = waitForChange(watcher, signals)
		plugin.stop()
	}
}

// waitForChange tells whether the plugin is to be built anew, else to end.
func waitForChange(watcher *fsnotify.Watcher, signals <-chan os.Signal) bool {
	for {
		select {
		case event := <-watcher.Events:
			if event.Name == v1beta1.KubeletSocket && event.Has(fsnotify.Create) {
				log.Print("the kubelet has started: building the plugin anew")
				return true
			}
		case err := <-watcher.Errors:
			log.Print(err)
		case number := <-signals:
			log.Print("signal: ", number)
			return number == syscall.SIGHUP
		}
	}
}

// A node as its plugin sees it in the API.
type apiNode struct {
	name   string
	client corev1client.CoreV1Interface
}

func connect(name string) (apiNode, error) {
	if name == "" {
		return apiNode{}, fmt.Errorf("NODE_NAME is not set")
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return apiNode{}, err
	}
	config.Timeout = apiSeconds * time.Second
	client, err := corev1client.NewForConfig(config)
	return apiNode{name, client}, err
}

func (n apiNode) labels() (map[string]string, error) {
	node, err := n.client.Nodes().Get(context.Background(), n.name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return node.Labels, nil
}

// The kubelet leaves a resource alone that no plugin has registered.
func (n apiNode) writeCardCount(cards int) error {
	count := fmt.Sprintf(`{%q: "%d"}`, countResource, cards)
	patch := fmt.Sprintf(`{"status": {"capacity": %s, "allocatable": %s}}`, count, count)
	_, err := n.client.Nodes().PatchStatus(context.Background(), n.name, []byte(patch))
	return err
}

func (n apiNode) pendingPods() ([]corev1.Pod, error) {
	selector := "status.phase=Pending,spec.nodeName=" + n.name
	options := metav1.ListOptions{FieldSelector: selector}
	pods, err := n.client.Pods("").List(context.Background(), options)
	if err != nil {
		return nil, err
	}
	return pods.Items, nil
}

func (n apiNode) annotate(pod *corev1.Pod, annotations string) error {
	patch := []byte(fmt.Sprintf(`{"metadata": {"annotations": %s}}`, annotations))
	_, err := n.client.Pods(pod.Namespace).Patch(
		context.Background(), pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	return err
}
