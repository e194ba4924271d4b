/** The parts of the name of a device: TYPE, VENDOR/TYPE or VENDOR/TYPE/MODEL. */
export function partsOf(name: string): { readonly type: string; readonly vendor?: string; readonly model?: string } {
  const [first = "", second, model] = name.split("/");
  if (second === undefined) return { type: first };
  return { type: second, vendor: first, ...(model !== undefined && { model }) };
}

/** Whether the name of a device matches the one of a request, as in Nomad: the parts that the request has must be the same. */
export function hasName(device: string, wanted: string): boolean {
  const [actual, request] = [partsOf(device), partsOf(wanted)];
  return (
    request.type === actual.type &&
    (request.vendor === undefined || request.vendor === actual.vendor) &&
    (request.model === undefined || request.model === actual.model)
  );
}
