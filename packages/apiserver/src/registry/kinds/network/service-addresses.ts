import { type DeepReadonly, jsonEquals, type KubernetesObject } from "@keelson/api-machinery";
import { invalidCause, requiredCause, type StatusCause } from "@keelson/api-machinery/validation";
import { age } from "../../../table/human-duration.ts";
import { parseAddressBlock } from "../../address-blocks.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import { internalValue } from "../../builtin/internal-value.ts";
import * as check from "../../field-checks.ts";
import { listAt, setField, textAt, valueAt } from "../../object-fields.ts";
import type { ServedResource } from "../../served-resource.ts";
import { eachItem } from "../../causes.ts";

type Read = DeepReadonly<KubernetesObject>;

/**
 * IPAddresses and ServiceCIDRs (KEP-1880). Services get addresses from the network of the server, which ServiceCIDR `kubernetes` shows;
 * other ServiceCIDRs are stored only.
 */
export function serviceAddressKinds(): readonly ServedResource[] {
  return [addresses, blocks];
}

const addresses = builtinResource({
  group: "networking.k8s.io",
  version: "v1",
  kind: "IPAddress",
  plural: "ipaddresses",
  shortNames: ["ip"],
  scope: "Cluster",
  // As in kube-apiserver, rows have an age that no column describes.
  columns: [column("ParentRef", "The object that the address belongs to.")],
  cells: (address, now) => {
    const parent = valueAt(address, "spec", "parentRef");
    const [group, resource, namespace, name] = ["group", "resource", "namespace", "name"].map((part) => textAt(parent, part));
    const shown = [group === "" ? resource : `${resource}.${group}`, namespace, name].filter((part) => part !== "").join("/");
    return [shown === "" ? "<none>" : shown, age(address.metadata.creationTimestamp, now)];
  },
  strategy: {
    hasGeneration: false,
    *validate(address) {
      const { name = "" } = address.metadata;
      const parent = valueAt(address, "spec", "parentRef");

      if (name !== "" && !check.isIpAddress(name)) {
        yield invalidCause("metadata.name", name, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
      }
      if (parent === undefined) {
        yield requiredCause("spec.parentRef");
        return;
      }
      yield* eachItem(["resource", "name"], (part) => check.nonEmpty(`spec.parentRef.${part}`, textAt(parent, part)));
    },
    *validateUpdate(address, old) {
      const parent = valueAt(address, "spec", "parentRef");
      yield* jsonEquals(parent, valueAt(old, "spec", "parentRef"))
        ? []
        : [invalidCause("spec.parentRef", internalValue("networking.ParentReference", parent), "field is immutable")];
    },
  },
});

const blocks = builtinResource({
  group: "networking.k8s.io",
  version: "v1",
  kind: "ServiceCIDR",
  plural: "servicecidrs",
  scope: "Cluster",
  hasStatus: true,
  columns: [column("CIDRs", "The address blocks."), ageColumn],
  cells: (block, now) => [listAt(block, "spec", "cidrs").join(","), age(block.metadata.creationTimestamp, now)],
  strategy: {
    hasGeneration: false,
    prepareForCreate: (block) => setField(block, "status", {}),
    *validate(block) {
      const cidrs = listAt(block, "spec", "cidrs");
      if (cidrs.length === 0) {
        yield requiredCause("spec.cidrs", "at least one CIDR required");
        return;
      }
      if (cidrs.length > 2) {
        yield invalidCause("spec.cidrs", { CIDRs: cidrs }, "may only hold up to 2 values");
        return;
      }
      yield* eachItem(cidrs, (cidr, index) =>
        parseAddressBlock(String(cidr)) === undefined
          ? [invalidCause(`spec.cidrs[${index}]`, cidr, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")]
          : [],
      );
      const [first, second] = cidrs.map((cidr) => parseAddressBlock(String(cidr)) && String(cidr).includes(":"));
      if (first === undefined || first !== second) return;
      const detail = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
      yield invalidCause("spec.cidrs", cidrs, detail);
    },
    validateUpdate: immutableSpec,
  },
});

function immutableSpec(object: Read, old: Read): StatusCause[] {
  const spec = valueAt(object, "spec");
  return jsonEquals(spec, valueAt(old, "spec")) ? [] : [invalidCause("spec", spec, "field is immutable")];
}
