/*
 * Controllers and clusters for tests. Importing this module does not load the node and its runtimes; `startTestCluster` does.
 */
export { clusterControllers, type ControllerHost, garbageCollection } from "./testing/environment-controllers.ts";
export { type AddressBlock, reserveAddressBlock } from "./address-block.ts";
export { type ClusterApi, startTestCluster, type TestCluster, type TestClusterOptions } from "./testing/test-cluster.ts";
