/* Prints 10 MB in lines of 100 bytes, half of them by each of two ranks. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int line = 0; line < 50000; line++) printf("%d %097d\n", rank, line);
  MPI_Finalize();
  return 0;
}
