/*
 * The client side of port-forward, without the node.
 */
export { openPodPort, type PodPort } from "./kubelet/streaming/port-forward-client.ts";
export { endpointPorts } from "./service/endpoint-ports.ts";
