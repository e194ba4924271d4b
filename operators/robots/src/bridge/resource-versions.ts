/** Whether resourceVersion `a` is of a later state than `b`. Both are decimal numbers, however long. */
export function isLater(a: string | undefined, b: string | undefined): boolean {
  const [left, right] = [a ?? "", b ?? ""];
  return left.length === right.length ? left > right : left.length > right.length;
}
