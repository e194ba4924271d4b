import type { ObjectReference } from "./core-objects.ts";
import type { Condition, KubernetesObject } from "../objects/object.ts";
import type { LabelSelector } from "../selectors/label-selector.ts";

/*
 * The networking kinds, with the fields that controllers use. Fields that are not typed here still exist at run time: these
 * types are not schemas, and declaration merging can extend them.
 */

/** An address of a load balancer (core/v1 LoadBalancerStatus). */
interface LoadBalanced {
  loadBalancer?: {
    ingress?: {
      ip?: string;
      hostname?: string;
      ipMode?: "VIP" | "Proxy";
      ports?: { port: number; protocol: string; error?: string }[];
    }[];
  };
}

/** core/v1 Service. */
export interface ServiceObject extends KubernetesObject {
  spec?: {
    type?: "ClusterIP" | "NodePort" | "LoadBalancer" | "ExternalName";
    clusterIP?: string;
    clusterIPs?: string[];
    selector?: Record<string, string>;
    ports?: {
      name?: string;
      port: number;
      targetPort?: number | string;
      protocol?: "TCP" | "UDP" | "SCTP";
      nodePort?: number;
      appProtocol?: string;
    }[];
    externalName?: string;
    publishNotReadyAddresses?: boolean;
    sessionAffinity?: "None" | "ClientIP";
    sessionAffinityConfig?: { clientIP?: { timeoutSeconds?: number } };
    externalIPs?: string[];
    externalTrafficPolicy?: "Cluster" | "Local";
    internalTrafficPolicy?: "Cluster" | "Local";
    trafficDistribution?: string;
    healthCheckNodePort?: number;
    ipFamilies?: ("IPv4" | "IPv6")[];
    ipFamilyPolicy?: "SingleStack" | "PreferDualStack" | "RequireDualStack";
    loadBalancerClass?: string;
    loadBalancerIP?: string;
    loadBalancerSourceRanges?: string[];
    allocateLoadBalancerNodePorts?: boolean;
  };
  status?: LoadBalanced & { conditions?: Condition[] };
}

/** discovery.k8s.io/v1 EndpointSlice. */
export interface EndpointSliceObject extends KubernetesObject {
  addressType: "IPv4" | "IPv6" | "FQDN";
  endpoints: {
    addresses: string[];
    conditions?: { ready?: boolean; serving?: boolean; terminating?: boolean };
    hostname?: string;
    nodeName?: string;
    zone?: string;
    hints?: { forZones?: { name: string }[]; forNodes?: { name: string }[] };
    targetRef?: ObjectReference;
  }[];
  ports?: { name?: string; port?: number; protocol?: string; appProtocol?: string }[];
}

/** core/v1 Endpoints. New code writes {@link EndpointSliceObject}. */
export interface EndpointsObject extends KubernetesObject {
  subsets?: {
    addresses?: { ip: string; hostname?: string; nodeName?: string; targetRef?: ObjectReference }[];
    notReadyAddresses?: { ip: string; hostname?: string; nodeName?: string; targetRef?: ObjectReference }[];
    ports?: { name?: string; port: number; protocol?: string }[];
  }[];
}

/** One end of a connection (networking.k8s.io/v1 NetworkPolicyPeer). */
export interface NetworkPolicyPeer {
  podSelector?: LabelSelector;
  namespaceSelector?: LabelSelector;
  ipBlock?: { cidr: string; except?: string[] };
}

/** A port number, a container port's name, or a range (networking.k8s.io/v1 NetworkPolicyPort). */
export interface NetworkPolicyPort {
  port?: number | string;
  endPort?: number;
  protocol?: "TCP" | "UDP" | "SCTP";
}

/** networking.k8s.io/v1 NetworkPolicy. */
export interface NetworkPolicyObject extends KubernetesObject {
  spec?: {
    podSelector?: LabelSelector;
    policyTypes?: ("Ingress" | "Egress")[];
    ingress?: { from?: NetworkPolicyPeer[]; ports?: NetworkPolicyPort[] }[];
    egress?: { to?: NetworkPolicyPeer[]; ports?: NetworkPolicyPort[] }[];
  };
}

/** The target of a request (networking.k8s.io/v1 IngressBackend). */
export interface IngressBackend {
  /** The port, by number or by name. */
  service?: { name: string; port?: { number?: number; name?: string } };
  resource?: { apiGroup?: string; kind: string; name: string };
}

/** networking.k8s.io/v1 Ingress. */
export interface IngressObject extends KubernetesObject {
  spec?: {
    ingressClassName?: string;
    rules?: {
      host?: string;
      http?: { paths: { path?: string; pathType: "Exact" | "Prefix" | "ImplementationSpecific"; backend: IngressBackend }[] };
    }[];
    tls?: { hosts?: string[]; secretName?: string }[];
    defaultBackend?: IngressBackend;
  };
  status?: LoadBalanced;
}

/** networking.k8s.io/v1 IngressClass. */
export interface IngressClassObject extends KubernetesObject {
  spec?: {
    controller?: string;
    parameters?: { apiGroup?: string; kind: string; name: string; namespace?: string; scope?: string };
  };
}
