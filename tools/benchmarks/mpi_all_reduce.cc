// mpi_all_reduce BYTES ROUNDS, under mpirun: seconds of MPI_Allreduce of so many bytes of f32, the
// median of the first process.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 3) {
    std::fprintf(stderr, "usage: mpi_all_reduce BYTES ROUNDS\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int elements = std::atoi(argv[1]) / 4, rounds = std::atoi(argv[2]);
  std::vector<float> in(elements, static_cast<float>(rank + 1)), out(elements);
  std::vector<double> seconds;
  for (int i = 0; i <= rounds; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    MPI_Allreduce(in.data(), out.data(), elements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    if (i > 0) seconds.push_back(MPI_Wtime() - begin);
  }
  std::nth_element(seconds.begin(), seconds.begin() + rounds / 2, seconds.end());
  if (rank == 0) std::printf("%.6g\n", seconds[rounds / 2]);
  MPI_Finalize();
  return 0;
}
