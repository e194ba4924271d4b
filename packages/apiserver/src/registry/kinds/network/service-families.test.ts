import { describe, expect, it } from "vitest";
import { addressCauses, chooseFamilies, familyUpdateCauses } from "./service-families.ts";

const notConfigured = "this cluster is not configured for dual-stack services";

describe("the families of a Service", () => {
  it.each([
    [{}, { ipFamilyPolicy: "SingleStack", ipFamilies: ["IPv4"] }],
    [{ ipFamilyPolicy: "PreferDualStack" }, { ipFamilyPolicy: "PreferDualStack", ipFamilies: ["IPv4"] }],
    [
      { clusterIP: "None", clusterIPs: ["None"] },
      { ipFamilyPolicy: "RequireDualStack", ipFamilies: ["IPv4", "IPv6"] },
    ],
    [{ clusterIP: "None", clusterIPs: ["None"], ipFamilies: ["IPv6"] }, { ipFamilies: ["IPv6", "IPv4"] }],
    [{ clusterIP: "None", clusterIPs: ["None"], selector: { a: "b" } }, { ipFamilies: ["IPv4"] }],
  ])("of %j are chosen: %j", (spec, expected) => {
    const chosen = { type: "ClusterIP", ...spec };
    expect(chooseFamilies(chosen, undefined)).toEqual([]);
    expect(chosen).toMatchObject(expected);
    expect(chooseFamilies(chosen, undefined)).toEqual([]);
  });

  it.each([
    [{ ipFamilyPolicy: "RequireDualStack" }, [`spec.ipFamilyPolicy: Invalid value: "RequireDualStack": ${notConfigured}`]],
    [{ ipFamilies: ["IPv6"] }, ['spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster']],
    [
      { ipFamilies: ["IPv4", "IPv6"] },
      [
        "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified",
      ],
    ],
    [
      { clusterIP: "fd00::1", clusterIPs: ["fd00::1"] },
      ['spec.clusterIPs[0]: Invalid value: ["fd00::1"]: IPv6 is not configured on this cluster'],
    ],
  ])("of %j are not available", (spec, expected) => {
    const causes = chooseFamilies({ type: "ClusterIP", ...spec }, undefined);
    expect(causes.map(({ field, message }) => `${field}: ${message}`)).toEqual(expected);
  });

  it("agree with each other and with the addresses", () => {
    const causes = [...addressCauses({ clusterIPs: ["10.0.0.1", "10.0.0.2"], ipFamilies: ["IPv6", "IPv6"] })];
    expect(causes.flatMap((cause) => (cause === undefined ? [] : [`${cause.reason} ${cause.field}`]))).toEqual([
      "FieldValueInvalid spec.clusterIPs",
      "FieldValueDuplicate spec.ipFamilies[1]",
      "FieldValueInvalid spec.clusterIPs",
      "FieldValueInvalid spec.clusterIPs[0]",
      "FieldValueInvalid spec.clusterIPs[1]",
    ]);
  });

  it("may be released with SingleStack only, and do not change", () => {
    const old = {
      type: "ClusterIP",
      clusterIPs: ["10.0.0.1"],
      ipFamilies: ["IPv4", "IPv6"],
      ipFamilyPolicy: "RequireDualStack",
    };
    const fields = (spec: object): unknown => familyUpdateCauses({ ...old, ...spec }, old).map(({ field }) => field);
    expect(fields({ ipFamilies: ["IPv4"] })).toEqual(["spec.ipFamilyPolicy"]);
    expect(fields({ ipFamilies: ["IPv4"], ipFamilyPolicy: "SingleStack" })).toEqual([]);
    expect(fields({ ipFamilies: ["IPv6", "IPv4"] })).toEqual(["spec.ipFamilies[0]", "spec.ipFamilies[1]"]);
    expect(fields({ clusterIPs: ["10.0.0.2"] })).toEqual(["spec.clusterIPs[0]"]);
  });
});
